"""Keys and values of sequences that have ended, for prompts that begin as they do.

A trajectory's next prompt is the last one, its answer and an observation: without this every step
would compute all of them again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import DynamicCache

States = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each layer, [1, heads, tokens, head size]."""
LEAST_TOKENS, LEAST_SHARE = 128, 0.5
"""The smallest cached part of a prompt that is worth using: the rest needs a forward pass of its
own, as costly as a hundred tokens in a pass with other prompts.
"""


class Prefixes:
    """The most recent sequences, `max_tokens` in all."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self._kept: list[tuple[np.ndarray, States]] = []

    def keep(self, ids: Sequence[int], states: States) -> None:
        """Remember a sequence of tokens with its states; the oldest ones are forgotten."""
        if len(ids) < LEAST_TOKENS:
            return
        self._kept.append((np.asarray(ids), states))
        while sum(len(kept) for kept, _ in self._kept) > self.max_tokens:
            self._kept.pop(0)

    def cache_for(self, prompt: Sequence[int]) -> DynamicCache | None:
        """The states of the longest beginning of a prompt; None where most of it is not there."""
        ids, best, found = np.asarray(prompt), 0, None
        for kept, states in self._kept:
            common = _common(ids, kept)
            if common > best:
                best, found = common, states
        if found is None or best < max(LEAST_TOKENS, LEAST_SHARE * len(ids)):
            return None
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(found):
            cache.update(keys[:, :, :best], values[:, :, :best], layer)
        return cache

    def clear(self) -> None:
        """Forget all: the weights have changed."""
        self._kept.clear()


def _common(one: np.ndarray, other: np.ndarray) -> int:
    """How many tokens two sequences begin with alike."""
    n = min(len(one), len(other))
    differ = np.flatnonzero(one[:n] != other[:n])
    return int(differ[0]) if len(differ) else n
