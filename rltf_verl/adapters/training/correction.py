"""verl's rollout correction (importance weights, rejection) on what the policy sampled; other
tokens have no ratio.
"""

from __future__ import annotations

from typing import Any

import torch
from verl.protocol import DataProto
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch

from rltf_verl.algos.targets import RowBatch, sampled_tokens


def rollout_correction(batch: RowBatch, config: Any) -> tuple[torch.Tensor, dict[str, float]]:
    """Weights of verl's policy losses, and its metrics.

    Args:
        batch: the rows.
        config: verl's `algorithm.rollout_correction`.

    Returns:
        [N, T] weights: verl's importance weight, 0 where verl rejects the token, 1 where nothing
            was sampled.
    """
    mask = sampled_tokens(batch.role)
    rows = mask.any(dim=1)
    data = DataProto.from_single_dict(
        {
            "old_log_probs": batch.old_log_probs[rows],
            "rollout_log_probs": batch.sampler_log_probs[rows],
            "response_mask": mask[rows].float(),
        }
    )
    data, metrics = compute_rollout_correction_and_add_to_batch(data, config)
    weights = torch.ones_like(batch.old_log_probs)
    kept = data.batch["response_mask"] * data.batch.get("rollout_is_weights", torch.ones(()))
    weights[rows] = torch.where(mask[rows], kept.float(), 1.0)
    return weights, metrics
