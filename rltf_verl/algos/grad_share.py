"""Coefficients that give an objective its share of the gradient (`rltf.<objective>.grad_share`).

The pull of a role is P = Σ over its tokens of |∂L/∂ℓ_t| at π_old, ℓ_t = log π_θ(y_t | ·): what the
metric `rltf/<role>/grad_share` is made of. It is proportional to the role's coefficient.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from rltf_verl.algos.role_loss import distill_loss
from rltf_verl.algos.targets import RowBatch, RowTargets, compute_targets
from rltf_verl.config import RLTFConfig
from rltf_verl.types import SAMPLED, Role


def shared_targets(
    batch: RowBatch,
    config: RLTFConfig,
    weights: Mapping[Role, float],
    shares: Mapping[Role, float],
    stale: torch.Tensor | None = None,
    trust: torch.Tensor | None = None,
) -> tuple[RowTargets, dict[Role, float]]:
    """As `compute_targets`, where roles with a share get the coefficient that makes it so.

    With shares s_r, P_r(1) the pull of role r at coefficient 1, and P the pull of all roles without
    a share together,

        w_r = s_r / (1 − Σ s) · P / P_r(1),

    the sum being over the shares of roles that have a pull. Where P = 0 (every group agrees, so
    attempts have no gradient) no coefficient makes a share, and w_r is the role's own
    (`role_weights`); so it is where P_r(1) = 0.

    Args:
        batch: the rows.
        config: the objectives.
        weights: coefficient of each role at this step.
        shares: share of each role that has one at this step, in [0, 1).
        stale: see `compute_targets`.
        trust: [N, T] weights of the policy loss on sampled tokens (rollout correction); None is 1.

    Returns:
        The targets, and the coefficients that are folded into them.
    """
    if not shares:
        return compute_targets(batch, config, weights, stale), dict(weights)
    targets = compute_targets(batch, config, {**weights, **dict.fromkeys(shares, 1.0)}, stale)
    pulls = {role: role_pull(batch, targets, config, role, trust) for role in Role}
    rest = sum(pull for role, pull in pulls.items() if role not in shares)
    left = 1.0 - sum(share for role, share in shares.items() if pulls[role] > 0)
    used = dict(weights)
    advantages = targets.advantages
    for role, share in shares.items():
        if rest > 0 and pulls[role] > 0:
            used[role] = share / left * rest / pulls[role]
        advantages = torch.where(batch.tokens(role), advantages * used[role], advantages)
    return replace(targets, advantages=advantages), used


def role_pull(
    batch: RowBatch,
    targets: RowTargets,
    config: RLTFConfig,
    role: Role,
    trust: torch.Tensor | None = None,
) -> float:
    """P of one role. Every policy loss of a sampled token has the derivative −A_t at ratio 1.

    Args:
        batch: the rows.
        targets: their advantages and references.
        config: the loss of distillation.
        role: whose.
        trust: see `shared_targets`.
    """
    tokens = batch.tokens(role)
    pull = targets.advantages
    if role in SAMPLED and trust is not None:
        pull = pull * trust
    if role is Role.DISTILL:
        log_prob = batch.old_log_probs.detach().clone().requires_grad_()
        loss = distill_loss(
            log_prob, targets.ref_log_probs, targets.advantages, tokens, config.distill
        )
        (pull,) = torch.autograd.grad(loss, log_prob)
    return float(torch.where(tokens, pull.abs(), 0.0).double().sum())
