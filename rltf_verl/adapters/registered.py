"""Our parts that verl selects by name: an advantage estimator and the token losses with absolute
ratio bounds.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import torch

from rltf_verl.algos.advantages import turn_advantages
from rltf_verl.algos.episodes import in_line
from rltf_verl.algos.losses import TOKEN_LOSSES, TokenLoss

ADV_ESTIMATOR = "rltf"
POLICY_LOSSES = {
    "importance_sampling": "importance_sampling",
    "rltf_ppo": "ppo",
    "rltf_cispo": "cispo",
}
"""Name in verl's registry -> token loss. verl's own `cispo` has the bounds 1 − low
and 1 + high.
"""


def register(core_algos: ModuleType) -> None:
    """Register the estimator and the losses in `verl.trainer.ppo.core_algos`."""
    core_algos.register_adv_est(ADV_ESTIMATOR)(centred_outcome_advantage)
    for name, loss in POLICY_LOSSES.items():
        core_algos.register_policy_loss(name)(_policy_loss(core_algos, TOKEN_LOSSES[loss]))


def centred_outcome_advantage(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: np.ndarray,
    config: Any = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """A = R − mean of the group, no std, 0 for a group of one: the single-turn case of our
    trainers' estimator.

    For stock trainers. Ours compute per-turn advantages themselves, because verl does not show
    turns to an estimator.

    Args:
        token_level_rewards: [N, T].
        response_mask: [N, T].
        index: [N] uid of each row's prompt.
        config: verl's algorithm config, unused.

    Returns:
        advantages and returns, [N, T] each.
    """
    # [N] number of each row's group, 0..G−1.
    groups = torch.as_tensor(np.unique(index, return_inverse=True)[1])
    outcome = token_level_rewards.sum(dim=-1, keepdim=True)
    episodes = in_line(outcome, torch.ones_like(outcome, dtype=torch.bool), groups)
    centred = turn_advantages(outcome, episodes) * response_mask
    return centred, centred


def _policy_loss(core_algos: ModuleType, token_loss: TokenLoss) -> Any:
    def policy_loss(
        old_log_prob: torch.Tensor,
        log_prob: torch.Tensor,
        advantages: torch.Tensor,
        response_mask: torch.Tensor,
        loss_agg_mode: str = "token-mean",
        config: Any = None,
        rollout_is_weights: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, dict[str, float]]:
        low, high = 1 - config.clip_ratio_low, 1 + config.clip_ratio_high
        losses = token_loss(log_prob, old_log_prob, advantages, low, high)
        if rollout_is_weights is not None:
            losses = losses * rollout_is_weights
        mask = response_mask.bool()
        ratio = torch.exp(log_prob - old_log_prob).detach()[mask]
        # The same names whatever a micro-batch holds: verl refuses ranks that differ in them.
        num_tokens = max(ratio.numel(), 1)
        metrics = {
            "actor/pg_clipfrac": float(((ratio < low) | (ratio > high)).sum()) / num_tokens,
            "actor/ppo_kl": float((old_log_prob - log_prob).detach()[mask].sum()) / num_tokens,
        }
        loss = core_algos.agg_loss(
            loss_mat=losses,
            loss_mask=response_mask,
            loss_agg_mode=loss_agg_mode,
            **config.global_batch_info,
        )
        return loss, metrics

    return policy_loss
