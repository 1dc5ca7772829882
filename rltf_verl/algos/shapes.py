"""Executable shapes: the first line of every equation in this package.

Axes (docs/architecture.md): S episodes, M turns, N rows, T, L or P tokens, V vocabulary.
"""

from __future__ import annotations

import torch


def require_shape(**named: tuple[torch.Tensor, tuple[int, ...]]) -> None:
    """Raise ValueError naming the argument and both shapes if a tensor does not have the shape
    stated.

    Args:
        named: argument name -> (tensor, expected shape).

    Example:
        >>> require_shape(x=(torch.zeros(2, 3), (2, 4)))
        Traceback (most recent call last):
        ...
        ValueError: x has shape (2, 3), expected (2, 4)
    """
    for name, (tensor, expected) in named.items():
        if tuple(tensor.shape) != expected:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {expected}")
