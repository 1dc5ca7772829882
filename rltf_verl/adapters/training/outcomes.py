"""The teacher's outcomes in the transfer queue: k + 1 numbers of each token, which never pass
through the driver.

The rows of the teacher's call have a partition of their own, and a row's key is its position in the
call. verl's bridge between workers and queue reads them there and writes all that the workers
return into the same rows. The driver fetches the columns with one number per token. In the update
each worker fetches the outcomes of its rows.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from rltf_verl.adapters.queue.step_rows import tokens
from rltf_verl.adapters.training.logit_loss import (
    TEACHER_IDS,
    TEACHER_LOG_PROBS,
    TEACHER_PLACES,
    TEACHER_SPANS,
    TEACHER_TAIL,
)

PARTITION = "rltf_teacher"
ONE_PER_TOKEN = ("log_probs", "entropy", TEACHER_TAIL)


def ask_in_queue(call: Callable[[KVBatchMeta], KVBatchMeta], batch: TensorDict) -> TensorDict:
    """The workers' answer without the outcomes, which stay in the queue.

    Args:
        call: verl's `compute_log_prob`.
        batch: rows and settings of the call. Outcomes of an earlier call in the same rows go with
            them: the second part of a mixture reads the outcomes of the first.
    """
    columns = [name for name, value in batch.items() if isinstance(value, torch.Tensor)]
    keys = [str(i) for i in range(len(batch))]
    rows = tq.kv_batch_put(keys=keys, partition_id=PARTITION, fields=batch.select(*columns))
    settings = set(batch.keys()) - set(columns)
    rows.extra_info = {name: batch[name] for name in settings}
    fields = [name for name in call(rows).fields if name in ONE_PER_TOKEN]
    return tq.kv_batch_get(keys=keys, partition_id=PARTITION, select_fields=fields)


def fetch_outcomes(data: TensorDict) -> None:
    """Give the rows of an update, in place, the columns `TEACHER_IDS` and `TEACHER_LOG_PROBS`. Rows
    without `TEACHER_SPANS` have a loss that reads no outcomes, and stay as they are.
    """
    if TEACHER_SPANS not in data.keys():  # noqa: SIM118  (a TensorDict is not searched by its keys)
        return
    keys = [str(i) for i in data[TEACHER_SPANS].values().tolist()]
    # A rank may have no row with a teacher, and the queue refuses a request for no keys.
    values = {TEACHER_IDS: torch.zeros(0, 1).int(), TEACHER_LOG_PROBS: torch.zeros(0, 2)}
    if keys:
        found = tq.kv_batch_get(keys=keys, partition_id=PARTITION, select_fields=list(values))
        values = {name: tokens(found[name]) for name in values}
    # The spans of a row are in the order of its places, and together as long.
    offsets = data[TEACHER_PLACES].offsets()
    for name, column in values.items():
        data[name] = torch.nested.nested_tensor_from_jagged(column, offsets)


def clear_outcomes() -> None:
    """Remove the rows of the step's calls."""
    keys = list(tq.kv_list(PARTITION).get(PARTITION, ()))
    if keys:
        tq.kv_clear(keys=keys, partition_id=PARTITION)
