"""Steps in proportion to their evidence (`rltf.evidence_scaling`).

Adam's step has one length whatever its gradient rests on. With few rows that have an advantage, it
takes a full step on the noise of these few, which can cost a policy everything that it could do.
"""

from __future__ import annotations

import torch


def evidence(pulls: torch.Tensor) -> float:
    """Share of a batch's rows that its gradient rests on, by Kish's effective sample size.

    With the pull c_i = Σ_t |A_t| of row i (0 for a row that trains nothing),

        e = (Σ_i c_i)² / (N Σ_i c_i²)        in [0, 1]; 1 where all N rows pull alike.

    A mean over n rows has noise ∝ 1/√n, and Adam divides a gradient by its noise. So its rate
    follows √n (the square-root rule of batch sizes; Malladi et al., arXiv 2205.10287): √e · rate.

    Args:
        pulls: [N], not negative.

    Returns:
        e; 0 where nothing pulls.

    Example:
        >>> evidence(torch.tensor([1.0, 1.0, 0.0, 0.0]))
        0.5
    """
    squares = len(pulls) * pulls.square().sum()
    return float(pulls.sum().square() / squares) if squares > 0 else 0.0
