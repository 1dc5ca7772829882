"""log-probs of given tokens from logits, a chunk at a time: a copy of all logits in float32 would
be the largest tensor of a step.

Legend: `N` tokens, `V` vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from rltf_verl.algos.shapes import require_shape

_CHUNK = {"cpu": 2**23, "cuda": 2**26}
"""Logits read at a time, small next to a micro-batch of them: 16 384 tokens of a vocabulary of
151 936 are 300 chunks on a CPU. A GPU takes longer to start as many operators than to run them.
"""


def rows_per_chunk(logits: torch.Tensor) -> int:
    """Rows of logits [n, V] that are read at a time, at least one."""
    return max(1, _CHUNK.get(logits.device.type, 2**26) // logits.shape[-1])


class _LabelLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        parts = logits.split(rows_per_chunk(logits))
        norms = torch.cat([at_least_float32(part).logsumexp(-1) for part in parts])
        ctx.save_for_backward(logits, labels, norms)
        return logits.gather(-1, labels[:, None])[:, 0] - norms

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        logits, labels, norms = ctx.saved_tensors
        out = torch.empty_like(logits)
        size = rows_per_chunk(logits)
        tensors = (logits, labels[:, None], norms[:, None], gradient[:, None], out)
        for part, label, norm, outer, into in zip(*(x.split(size) for x in tensors), strict=True):
            # g ([v = y] − p_v), from −p_v upwards in one buffer.
            whole = (at_least_float32(part) - norm).exp_().neg_()
            into.copy_(whole.scatter_add_(-1, label, torch.ones_like(norm)).mul_(outer))
        return out, None


def label_log_probs(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """log p_y = z_y − log Σ_v e^{z_v}, with the gradient [v = y] − p_v in z_v.

    Beside the logits the backward pass holds their gradient, in their type, and one chunk.

    Args:
        logits: [N, V], any float type.
        labels: [N] int64.

    Returns:
        [N] float32, or float64 of such logits. The backward pass works once.

    Example:
        >>> label_log_probs(torch.zeros(1, 4), torch.tensor([2])).exp()
        tensor([0.2500])
    """
    require_shape(labels=(labels, (logits.shape[0],)))
    log_probs: torch.Tensor = _LabelLogProbs.apply(logits, labels)  # type: ignore[no-untyped-call]
    return log_probs


def at_least_float32(logits: torch.Tensor) -> torch.Tensor:
    """In float32, or float64 as they are."""
    return logits if logits.dtype == torch.float64 else logits.float()
