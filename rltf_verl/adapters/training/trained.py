"""What a step's rows are trained on, and the columns that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from transfer_queue import KVBatchMeta
from verl.workers.config import ActorConfig

from rltf_verl.adapters.queue.columns import SAMPLER_LOG_PROBS
from rltf_verl.adapters.startup.rules import TOKEN_SUM_LOSSES
from rltf_verl.adapters.training.teacher import TeacherOutput
from rltf_verl.algos.targets import RowBatch, RowTargets, sampled_tokens

LIVE = "rltf_live"
"""Tag of the rows that the update needs."""

BEYOND_ADVANTAGES = {"dro", "clip_cov", "kl_cov"}
"""Policy losses of verl that pull at tokens without advantage, or choose tokens by what all others
have.
"""


@dataclass(frozen=True)
class Trained:
    """Of L tokens, M of which a teacher spoke about."""

    targets: RowTargets
    weights: Mapping[str, float]
    """Coefficient of each objective."""
    stale: torch.Tensor | None
    """[S, M] bool: turns that are too old for objectives that age; None: nobody asked."""
    trust: torch.Tensor | None
    """[L] weights of verl's rollout correction, where it is on."""
    corrected: Mapping[str, float]
    """Its metrics."""
    teacher: TeacherOutput | None
    """What the teacher said, where there is one."""
    teacher_weights: torch.Tensor
    """[M] in the teacher's loss."""

    def live_rows(self, batch: RowBatch) -> torch.Tensor:
        """[N] bool: rows with a token that has an advantage, or a weight in the teacher's loss."""
        num_rows = len(batch.lengths)
        row = torch.arange(num_rows).repeat_interleave(batch.lengths)
        live = torch.zeros(num_rows, dtype=torch.bool)
        live[row[self.targets.advantages != 0]] = True
        if self.teacher is not None:
            inputs = self.teacher.inputs
            by_input = self.teacher_weights.split([len(one.response) for one in inputs])
            for one, weights in zip(inputs, by_input, strict=True):
                live[one.row] |= bool(weights.any())
        return live


def skips_idle_rows(actor: ActorConfig) -> bool:
    """Whether a row that is not live has no gradient: nothing pulls at its tokens but their
    advantages.
    """
    mode = actor.policy_loss.get("loss_mode", "vanilla")
    by_advantage = mode in TOKEN_SUM_LOSSES and mode not in BEYOND_ADVANTAGES
    return by_advantage and actor.entropy_coeff == 0 and not actor.use_kl_loss


def rows_of_update(rows: KVBatchMeta, multiple: int) -> KVBatchMeta:
    """The rows with the tag `LIVE`, and the shortest of the others up to a number that the workers
    can split.

    Args:
        rows: all rows of the batch, a multiple of them.
        multiple: what the number must be divisible by.
    """
    live = [i for i, tag in enumerate(rows.tags) if tag.get(LIVE)]
    idle = sorted(set(range(len(rows))) - set(live), key=lambda i: rows.tags[i]["seq_len"])
    num_fill = -len(live) % multiple if live else multiple
    return rows.select_keys([rows.keys[i] for i in sorted(live + idle[:num_fill])])


def target_columns(
    batch: RowBatch, targets: RowTargets, trust: torch.Tensor | None = None
) -> dict[str, torch.Tensor]:
    """[L] columns by the names that the loss and verl know.

    Args:
        batch: the rows.
        targets: what they are trained on.
        trust: [L] weights of verl's rollout correction, where it is on.
    """
    columns = {
        "advantages": targets.advantages,
        "returns": targets.advantages,
        # The sampler's log-probs of what was sampled elsewhere belong to another prompt; under
        # verl's name they would pass for this row's.
        SAMPLER_LOG_PROBS: batch.sampler_log_probs,
        "rollout_log_probs": torch.where(
            sampled_tokens(batch.role), batch.sampler_log_probs, batch.old_log_probs
        ),
    }
    if targets.ref_log_probs is not batch.old_log_probs:
        columns["old_log_probs"] = targets.ref_log_probs
    if trust is not None:
        columns["rollout_is_weights"] = trust
    return columns
