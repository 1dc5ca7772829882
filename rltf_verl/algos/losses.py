"""Token losses with absolute ratio bounds, as the service behind the release defines them.

ρ_t = exp(ℓ_t − ℓ_t^ref), ℓ_t = log π_θ(y_t | ·). Every function returns the per-token matrix to be
*minimised*; the reduction (a token sum over one constant) belongs to the caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from rltf_verl.algos.shapes import require_shape

TokenLoss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float, float], torch.Tensor]


def _ratio(
    log_prob: torch.Tensor, ref_log_prob: torch.Tensor, advantages: torch.Tensor
) -> torch.Tensor:
    shape = tuple(log_prob.shape)
    require_shape(ref_log_prob=(ref_log_prob, shape), advantages=(advantages, shape))
    return torch.exp(log_prob - ref_log_prob)


def importance_sampling(
    log_prob: torch.Tensor,
    ref_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    clip_low: float,
    clip_high: float,
) -> torch.Tensor:
    """L_t = −ρ_t A_t; ∂L/∂ℓ = −ρ_t A_t. The bounds are not used.

    With `ref_log_prob = log_prob.detach()` the ratio is 1 and this is the paper's
    advantage-weighted regression: the gradient is −A_t ∇ℓ_t whatever the sampler was (paper section
    3, π_ref = sg π(·|x_0)).

    Args:
        log_prob: [N, T] of the policy that is trained.
        ref_log_prob: [N, T] of π_ref.
        advantages: [N, T].
        clip_low: unused lower ratio bound.
        clip_high: unused upper ratio bound.

    Returns:
        [N, T] token losses.
    """
    return -_ratio(log_prob, ref_log_prob, advantages) * advantages


def ppo(
    log_prob: torch.Tensor,
    ref_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    clip_low: float,
    clip_high: float,
) -> torch.Tensor:
    """L_t = −min(ρ_t A_t, clip(ρ_t, low, high) A_t): PPO without the dual clip. Shapes as
    `importance_sampling`.
    """
    ratio = _ratio(log_prob, ref_log_prob, advantages)
    return -torch.minimum(ratio * advantages, ratio.clamp(clip_low, clip_high) * advantages)


def cispo(
    log_prob: torch.Tensor,
    ref_log_prob: torch.Tensor,
    advantages: torch.Tensor,
    clip_low: float,
    clip_high: float,
) -> torch.Tensor:
    """L_t = −sg[clip(ρ_t, low, high)] ℓ_t A_t: the clipped ratio weighs, the log-prob learns.
    Shapes as above.
    """
    ratio = _ratio(log_prob, ref_log_prob, advantages)
    return -ratio.clamp(clip_low, clip_high).detach() * log_prob * advantages


def shaped(log_prob: torch.Tensor, advantages: torch.Tensor, gamma: float) -> torch.Tensor:
    """L_t = −f(π_t) A_t with f(π) = π / (π + γ), π_t = exp ℓ_t; ∂L/∂ℓ = −A_t γ π_t / (π_t + γ)².

    No ratio: the answer is taken for given, as if its sampler had been sure of it (LUFFY, arXiv
    2504.14945, sets the denominator to 1). Against A_t π_t, which that ratio alone would give,
    tokens that the policy finds unlikely pull harder, up to 1 / γ times; the pull is greatest, A_t
    / 4, at π = γ, and fades towards certain tokens.

    Args:
        log_prob: [N, T] of the policy that is trained.
        advantages: [N, T].
        gamma: γ > 0.

    Returns:
        [N, T] token losses.
    """
    require_shape(advantages=(advantages, tuple(log_prob.shape)))
    # σ(ℓ − log γ) is π / (π + γ), without the underflow of π.
    return -torch.sigmoid(log_prob - math.log(gamma)) * advantages


def cross_entropy(log_prob: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """L_t = −w_t ℓ_t: supervised, never a ratio. Args: [N, T] each. Returns: [N, T] token
    losses.
    """
    require_shape(weights=(weights, tuple(log_prob.shape)))
    return -weights * log_prob


TOKEN_LOSSES: dict[str, TokenLoss] = {
    "importance_sampling": importance_sampling,
    "ppo": ppo,
    "cispo": cispo,
}
