"""Dynamic sampling (`rltf.refill_rounds`): groups that train nothing are replaced by groups of
further problems.

verl's `algorithm.filter_groups` drops a group when one number, that of the last row of each
episode, is the same in all of them. Second answers can differ where first ones do not, and feedback
modelling learns where no reward differs.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu

from rltf_verl.adapters.metrics.episodes import SPENT, episode_metrics
from rltf_verl.adapters.queue.columns import DRAW, episode_of, real_rows
from rltf_verl.adapters.queue.step_rows import StepRows
from rltf_verl.texts import counted

logger = logging.getLogger(__name__)

Sampled = tuple[KVBatchMeta, dict[str, Any]]


class LiveGroups:
    """verl's `ReplayBuffer.sample` with as few groups that train nothing as the rounds allow.

    After each round all episodes have ended and exactly as many further problems are played as
    groups are dead. So the problems of a batch depend on the data's order and the sampled answers
    alone, and every live group is trained on. A dead group leaves the queue when another one has
    come in its place.

    Args:
        sample: verl's method.
        refill: submits so many further problems, `PPOTrainer._add_prompts_to_generate`.
        is_live: rows -> [G] bool, which of their groups train something.
        num_rounds: most rounds of further problems per batch.
    """

    def __init__(
        self,
        sample: Callable[..., Sampled],
        refill: Callable[[int], Any],
        is_live: Callable[[StepRows], torch.Tensor],
        num_rounds: int,
    ) -> None:
        self._sample, self._refill, self._is_live, self._num_rounds = (
            sample,
            refill,
            is_live,
            num_rounds,
        )

    def __call__(self, global_steps: int, partition_id: str, batch_size: int) -> Sampled:
        """Call verl's method; add `rltf/group/…` and the spending of replaced groups (`SPENT`)."""
        batch, metrics = self._sample(
            global_steps=global_steps, partition_id=partition_id, batch_size=batch_size
        )
        if partition_id != "train":
            return batch, metrics
        refilled, spent = 0, Counter[str](dict.fromkeys(SPENT, 0.0))
        dead, num_round = self._dead_groups(batch), 0
        while dead and num_round < self._num_rounds:
            more = self._sample_more(global_steps, partition_id, len(dead), metrics)
            if more is None:
                break
            num_round += 1
            # Groups of `more` may have been lost: only as many dead ones leave as others came.
            num = len({_group_of(key) for key in more.keys})
            gone = [key for key in batch.keys if _group_of(key) in dead[:num]]
            spent.update(_spending(batch.select_keys(gone)))
            tq.kv_clear(partition_id=partition_id, keys=gone)
            kept = batch.select_keys([key for key in batch.keys if key not in set(gone)])
            refilled += len(dead[:num])
            batch, dead = KVBatchMeta.concat([kept, more]), [*dead[num:], *self._dead_groups(more)]
        if dead:
            logger.warning(
                "step %d: %d of %d groups train nothing after %s of further problems"
                " (rltf.refill_rounds=%d); they stay in the batch",
                global_steps,
                len(dead),
                batch_size,
                counted(num_round, "round"),
                self._num_rounds,
            )
        counts = {"refilled": refilled, "refill_rounds": num_round, "left_dead": len(dead)}
        return batch, metrics | spent | {
            f"rltf/group/{name}": float(value) for name, value in counts.items()
        }

    def _dead_groups(self, batch: KVBatchMeta) -> list[str]:
        """Groups that train nothing, in order of appearance."""
        groups = list(dict.fromkeys(_group_of(batch.keys[i]) for i in real_rows(batch)))
        if not groups:
            return []
        live = self._is_live(StepRows.read(batch, scored=False))
        # `StepRows` numbers groups in the same order, that of appearance.
        return [group for group, is_live in zip(groups, live.tolist(), strict=True) if not is_live]

    def _sample_more(
        self, step: int, partition: str, num: int, metrics: dict[str, Any]
    ) -> KVBatchMeta | None:
        """So many further groups; None if all of their episodes were lost."""
        self._refill(num)
        try:
            more, counts = self._sample(global_steps=step, partition_id=partition, batch_size=num)
        except RuntimeError as error:  # verl's, for groups without a row; the run has others
            logger.warning("step %d: %d further groups were lost: %s", step, num, error)
            # verl raises before it takes these prompts out of the queue, and would select them
            # again.
            failed = [
                key for key, tag in tq.kv_list(partition)[partition].items() if tag.get("is_prompt")
            ]
            tq.kv_clear(partition_id=partition, keys=failed)
            return None
        for name, value in counts.items():
            metrics[name] = metrics.get(name, 0) + value
        return more


class Draws:
    """Numbers the draws of a problem within a step, for its seeds: a small dataset starts over
    while a step is refilled, and equal answers would teach nothing.
    """

    def __init__(self) -> None:
        self._step = -1
        self._counts: Counter[tuple[str, str]] = Counter()

    def number(self, batch: TensorDict, step: int) -> TensorDict:
        """The drawn problems, with the column `DRAW`: 0 for a problem that is new in the step."""
        if step != self._step:
            self._step, self._counts = step, Counter()
        draws = []
        for source, index in zip(batch["data_source"], batch["index"], strict=True):
            # The number of draws so far: 0 the first time.
            draws.append(self._counts[str(source), str(index)])
            self._counts[str(source), str(index)] += 1
        tu.assign_non_tensor_stack(batch, DRAW, draws)
        return batch


def _group_of(key: str) -> str:
    return episode_of(key)[0]


def _spending(batch: KVBatchMeta) -> dict[str, float]:
    """`SPENT` of a batch."""
    if not real_rows(batch):
        return dict.fromkeys(SPENT, 0.0)
    metrics = episode_metrics(StepRows.read(batch, scored=False).facts, horizon=1)
    return {name: metrics[name] for name in SPENT}
