"""The losses of the roles that are not sampled: token sums, so that weights mean the same in any
mix.

Outside a role's mask the log-probs belong to other rows or to padding, and may be infinite: nothing
is computed there, so that 0 · inf cannot make the sum or the gradient NaN.
"""

from __future__ import annotations

import torch

from rltf_verl.algos.losses import TOKEN_LOSSES, cross_entropy, shaped
from rltf_verl.algos.shapes import require_shape
from rltf_verl.config import DistillConfig


def distill_loss(
    log_prob: torch.Tensor,
    ref_log_probs: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    config: DistillConfig,
) -> torch.Tensor:
    """Token sum of the distillation rows. With reference `current` never clipped, whatever the
    number of updates.

    Args:
        log_prob: [N, T] log π_θ(y | x_0).
        ref_log_probs: [N, T] π_ref; ignored when the reference is the current policy itself.
        advantages: [N, T], weight and log-prob floor folded in.
        mask: [N, T] bool, True on the tokens of distillation rows.
        config: token loss, reference, ratio bounds and γ.

    Returns:
        Scalar token sum, 0 (with a graph) without such rows.
    """
    require_shape(mask=(mask, tuple(log_prob.shape)))
    kept, weights = torch.where(mask, log_prob, 0.0), torch.where(mask, advantages, 0.0)
    loss = config.loss
    if loss.name == "shaped":
        return shaped(kept, weights, loss.gamma).sum()
    ref = (
        kept.detach()
        if config.reference == "current"
        # Outside of the mask the ratio is then 1, and cannot overflow.
        else torch.where(mask, ref_log_probs, kept.detach())
    )
    token_loss = TOKEN_LOSSES[loss.name]
    return (token_loss(kept, ref, weights, loss.clip_low, loss.clip_high) * mask).sum()


def supervised_loss(
    log_prob: torch.Tensor, weights: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Token sum of −w_t log π_θ over the masked tokens: feedback modelling (paper section 4) and
    imitation.

    Args:
        log_prob: [N, T] log π_θ of the row's tokens.
        weights: [N, T] coefficient of each token.
        mask: [N, T] bool, True on the tokens of the role.

    Returns:
        Scalar token sum, 0 (with a graph) without such tokens.
    """
    require_shape(mask=(mask, tuple(log_prob.shape)))
    return cross_entropy(torch.where(mask, log_prob, 0.0), torch.where(mask, weights, 0.0)).sum()
