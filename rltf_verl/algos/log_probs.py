"""log-probs of given tokens from logits, a chunk at a time: a copy of all logits in float32 would
be the largest tensor of a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import log_softmax, softmax
from torch.autograd.function import once_differentiable

from rltf_verl.algos.shapes import require_shape

_CHUNK = {"cpu": 2**23, "cuda": 2**26}
"""Logits read at a time, small next to a micro-batch of them: 16 384 tokens of a vocabulary of
151 936 are 300 chunks on a CPU. A GPU takes longer to start as many operators than to run them.
"""


def rows_per_chunk(logits: torch.Tensor) -> int:
    """Rows of logits [L, V] that are read at a time, at least one."""
    return max(1, _CHUNK.get(logits.device.type, 2**26) // logits.shape[-1])


class _LabelLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(logits, labels)
        parts = _chunks(logits, labels[:, None])
        chosen = [log_softmax(part, -1, dtype=wide(part)).gather(-1, y) for part, y in parts]
        return torch.cat(chosen)[:, 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        logits, labels = ctx.saved_tensors
        out = torch.empty_like(logits)
        for part, y, outer, into in _chunks(logits, labels[:, None], gradient[:, None], out):
            # g ([v = y] − p_v) = (p_v − [v = y]) (−g), in one buffer.
            whole = softmax(part, -1, dtype=wide(part))
            whole.scatter_add_(-1, y, -torch.ones_like(outer))
            torch.mul(whole, -outer, out=into)
        return out, None


def _chunks(logits: torch.Tensor, *others: torch.Tensor) -> Iterable[tuple[torch.Tensor, ...]]:
    size = rows_per_chunk(logits)
    return zip(*(torch.split(tensor, size) for tensor in (logits, *others)), strict=True)


def label_log_probs(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """log p_y = z_y − log Σ_v e^{z_v}, with the gradient [v = y] − p_v in z_v.

    Beside the logits the backward pass holds their gradient, in their type, and one chunk.

    Args:
        logits: [P, V], any float type.
        labels: [P] int64.

    Returns:
        [P] float32, or float64 of such logits. The backward pass works once.

    Example:
        >>> label_log_probs(torch.zeros(1, 4), torch.tensor([2])).exp()
        tensor([0.2500])
    """
    require_shape(labels=(labels, (logits.shape[0],)))
    log_probs: torch.Tensor = _LabelLogProbs.apply(logits, labels)  # type: ignore[no-untyped-call]
    return log_probs


def wide(logits: torch.Tensor) -> torch.dtype:
    """The type to compute in: float32, or float64 of such logits."""
    return torch.promote_types(logits.dtype, torch.float32)
