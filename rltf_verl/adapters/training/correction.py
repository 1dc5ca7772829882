"""verl's rollout correction (importance weights, rejection) on what the policy sampled; other
tokens have no ratio.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from verl.protocol import DataProto
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch

from rltf_verl.algos.targets import RowBatch, sampled_tokens


def rollout_correction(batch: RowBatch, config: Any) -> tuple[torch.Tensor, dict[str, float]]:
    """Weights of verl's policy losses, and its metrics.

    Args:
        batch: the rows.
        config: verl's `algorithm.rollout_correction`.

    Returns:
        [L] weights: verl's importance weight, 0 where verl rejects the token, 1 where nothing was
            sampled.
    """
    sampled = sampled_tokens(batch.role)
    mask = _rectangle(batch, sampled)
    rows = mask.any(dim=1)
    data = DataProto.from_single_dict(
        {
            "old_log_probs": _rectangle(batch, batch.old_log_probs)[rows],
            "rollout_log_probs": _rectangle(batch, batch.sampler_log_probs)[rows],
            "response_mask": mask[rows].float(),
        }
    )
    data, metrics = compute_rollout_correction_and_add_to_batch(data, config)
    kept = data.batch["response_mask"] * data.batch.get("rollout_is_weights", torch.ones(()))
    weights = torch.ones_like(batch.old_log_probs)
    weights[sampled] = kept[mask[rows]].float()
    return weights, metrics


def _rectangle(batch: RowBatch, values: torch.Tensor) -> torch.Tensor:
    """[L] -> [N, T], 0 where a row has no token: verl looks at rows."""
    return pad_sequence(batch.by_row(values), batch_first=True)
