"""The rows of one step in the trainer: read from the transfer queue, and written back, without
padding.

Responses differ in length, so a rectangle of them is mostly padding; and a Python loop over rows
would be most of the trainer's own time. So columns stay as the queue has them: the values of all
tokens, one row after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from operator import itemgetter
from typing import Any

import numpy as np
import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from rltf_verl.adapters.queue.columns import (
    EPISODE_FACTS,
    FACTS,
    ROLE,
    SCORED,
    TURN,
    episode_batch,
    real_rows,
)
from rltf_verl.algos.targets import RowBatch

SAMPLED_COLUMNS = (ROLE, TURN, FACTS, "rollout_log_probs")
ACTOR_COLUMNS = ("old_log_probs", "entropy")


@dataclass(frozen=True)
class StepRows:
    """The rows of a step: L tokens of N rows together. Padding rows of the trainer have a place in
    the queue only.
    """

    meta: KVBatchMeta
    """All rows in the queue, padding rows too."""
    at: Sequence[int]
    """[N] where the rows are among all rows."""
    batch: RowBatch
    """Input of the equations."""
    facts: torch.Tensor
    """[S, M, F] facts of the episodes."""
    entropy: torch.Tensor
    """[L] of the policy at each token, nats. At tokens that the actor has not scored −log π of the
    sampler, whose mean is the entropy's estimate."""

    @classmethod
    def read(cls, meta: KVBatchMeta, *, scored: bool = True) -> StepRows:
        """The rows as the equations want them; episodes and groups numbered in order of appearance.

        Args:
            meta: all rows, padding rows too.
            scored: the actor has scored them, but for those whose tag `SCORED` says no. Otherwise
                the sampler's log-probs replace its own.
        """
        at = real_rows(meta)
        of_actor = [i for i in at if scored and meta.tags[i].get(SCORED, True)]
        known, whole = SAMPLED_COLUMNS, len(of_actor) == len(at)
        columns = read_columns(meta, at, [*known, *ACTOR_COLUMNS] if whole else known)
        episode, group = episode_numbers([meta.keys[i] for i in at])
        # Every row of an episode has its facts: take those of the first, the smallest row number.
        first_row = torch.full_like(group, len(at)).scatter_reduce_(
            0, episode, torch.arange(len(at)), "amin"
        )
        # [N M, F] → [N, M, F] → [S, M, F].
        facts = tokens(columns.pop(FACTS)).view(len(at), -1, len(EPISODE_FACTS))[first_row]
        lengths = token_counts(columns[ROLE])
        # Workers in bfloat16 send bfloat16, in which sums over many tokens are wrong, and which
        # numpy does not know.
        flat = {name: tokens(values) for name, values in columns.items()}
        column = {k: v.float() if v.is_floating_point() else v for k, v in flat.items()}
        sampler = column["rollout_log_probs"]
        mask = None
        if not whole:
            rows = torch.zeros(len(meta), dtype=torch.bool)
            rows[of_actor] = True
            # [rows of the queue] → [N] → [L].
            mask = rows[at].repeat_interleave(lengths)
            column |= {"old_log_probs": sampler.clone(), "entropy": -sampler}
            for name, values in read_columns(meta, of_actor, ACTOR_COLUMNS).items():
                column[name][mask] = tokens(values).float()
        batch = RowBatch(
            role=column[ROLE],
            turn=column[TURN],
            # 32 bits: `look_up` then reads its tables by 32-bit indices, in half the time.
            episode=torch.from_numpy(np.repeat(episode.int().numpy(), lengths.numpy())),
            lengths=lengths,
            episodes=episode_batch(facts, group),
            old_log_probs=column["old_log_probs"],
            sampler_log_probs=sampler,
            scored=mask,
        )
        return cls(meta, at, batch, facts, column["entropy"])

    @cached_property
    def keys(self) -> list[str]:
        """[N] of the rows, `{uid}_{session}_{row}`."""
        return [self.meta.keys[i] for i in self.at]

    def write(
        self,
        fields: Mapping[str, torch.Tensor],
        ready: Mapping[str, torch.Tensor] | None = None,
    ) -> KVBatchMeta:
        """Write values of tokens as ragged columns of all rows; padding rows get 0.

        Args:
            fields: name -> [L].
            ready: further columns, ragged, of all rows in the queue.

        Returns:
            All rows, which know of the columns.
        """
        meta = self.meta
        lengths = _integers(map(itemgetter("response_len"), meta.tags), len(meta))
        if len(self.at) < len(meta):
            given = torch.zeros(len(meta), dtype=torch.bool)
            given[self.at] = True  # tokens of the other rows, which only pad the batch, stay 0
            place = given.repeat_interleave(lengths)
            fields = {
                # The L values fill the L true places in order.
                k: torch.zeros(place.shape).masked_scatter_(place, v.float())
                for k, v in fields.items()
            }
        # [rows + 1]: 0, then the end of each row among all tokens.
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        columns = dict(ready or {})
        for k, v in fields.items():
            columns[k] = torch.nested.nested_tensor_from_jagged(v.float(), offsets)
        return tq.kv_batch_put(
            keys=meta.keys, partition_id=meta.partition_id, fields=TensorDict(columns, len(meta))
        )


def read_columns(
    batch: KVBatchMeta, rows: Sequence[int], fields: Sequence[str]
) -> dict[str, torch.Tensor]:
    """Fetch columns of the given rows, ragged; none of no rows."""
    if not rows:
        return {}
    keys = [batch.keys[i] for i in rows]
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=list(fields))
    missing = [f for f in fields if f not in data]
    if missing:
        raise ValueError(
            f"the rollout's rows have no column {', '.join(missing)}: they were not made by the"
            " agent loop `rltf`. Set actor_rollout_ref.rollout.agent.default_agent_loop=rltf (or"
            " the dataset's agent_name column)."
        )
    return {f: data[f] for f in fields}


def episode_numbers(keys: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Transfer-queue keys `{uid}_{session}_{row}` -> [N] episode of each row, [S] group of each
    episode.
    """
    episode, episodes = _number([key.rpartition("_")[0] for key in keys])
    group, _ = _number([key.rpartition("_")[0] for key in episodes])
    return episode, group


def _number(names: Sequence[str]) -> tuple[torch.Tensor, Iterable[str]]:
    """The number of each name, in order of appearance, and the different names."""
    numbers: dict[str, int] = defaultdict(count().__next__)  # a new name gets the next number
    return _integers(map(numbers.__getitem__, names), len(names)), numbers


def _integers(values: Iterable[int], length: int) -> torch.Tensor:
    """`torch.tensor(list(values))`, several times faster."""
    return torch.from_numpy(np.fromiter(values, np.int64, length))


def tokens(column: torch.Tensor) -> torch.Tensor:
    """[L, …] values of a column, one row after the other."""
    values: torch.Tensor = column.values() if column.is_nested else column.flatten(0, 1)
    return values


def token_counts(column: Any) -> torch.Tensor:
    """[N] lengths of the rows of a column, a tensor that may be nested."""
    lengths: torch.Tensor = (
        column.offsets().diff()
        if column.is_nested
        else torch.full(column.shape[:1], column.shape[1])
    )
    return lengths
