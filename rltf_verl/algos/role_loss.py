"""One scalar from all roles: each role's token sum over one constant, so that weights mean the same in any mix."""

from __future__ import annotations

import torch

from rltf_verl.algos.losses import TOKEN_LOSSES
from rltf_verl.algos.shapes import require_shape
from rltf_verl.algos.targets import Reference


def distill_loss(
    log_prob: torch.Tensor,
    ref_log_probs: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    *,
    reference: Reference,
    loss: str,
    clip_low: float,
    clip_high: float,
) -> torch.Tensor:
    """Token sum of the distillation rows. With reference `current` never clipped, whatever the number of updates.

    Args:
        log_prob: [N, T] log π_θ(y | x_0).
        ref_log_probs: [N, T] π_ref; ignored when the reference is the current policy itself.
        advantages: [N, T], weight and log-prob floor folded in.
        mask: [N, T] bool, True on the tokens of distillation rows.
        reference: which π_ref (`targets.Reference`).
        loss: key of `TOKEN_LOSSES`.
        clip_low: absolute lower bound of the ratio.
        clip_high: absolute upper bound of the ratio.

    Returns:
        Scalar token sum, 0 (with a graph) when there is no such row.
    """
    require_shape(mask=(mask, tuple(log_prob.shape)))
    # Outside the mask the log-probs belong to other rows or to padding, and may be infinite: nothing is computed there,
    # so that 0 · inf cannot make the sum or the gradient NaN.
    kept = torch.where(mask, log_prob, torch.zeros_like(log_prob))
    ref = kept.detach() if reference == "current" else torch.where(mask, ref_log_probs, kept.detach())
    return (TOKEN_LOSSES[loss](kept, ref, torch.where(mask, advantages, 0.0), clip_low, clip_high) * mask).sum()
