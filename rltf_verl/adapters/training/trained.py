"""What a step's rows are trained on, and the columns that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from rltf_verl.adapters.queue.columns import SAMPLER_LOG_PROBS
from rltf_verl.adapters.training.teacher import Taught
from rltf_verl.algos.targets import RowBatch, RowTargets, sampled_tokens


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
    taught: Taught | None
    """What the teacher said, where there is one."""
    lesson_weights: torch.Tensor
    """[M] in the teacher's loss."""


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
