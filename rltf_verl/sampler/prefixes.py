"""Keys and values of sequences of tokens, for prompts that begin as they do.

A trajectory's next prompt is the last one, its answer and an observation, and all prompts of a task
have its instructions: without this every step would compute them again.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Sequence

import torch

States = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each layer, [1, heads, tokens, head size]."""
Ids = tuple[int, ...]


class Prefixes:
    """The most recent sequences, `max_tokens` in all."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self._states: dict[Ids, States] = {}  # in the order in which they came
        self._sorted: list[Ids] = []

    def keep(self, ids: Sequence[int], states: States) -> None:
        """Remember a sequence of tokens with its states; the oldest ones are forgotten."""
        ids = tuple(ids)
        if ids in self._states:
            return
        self._states[ids] = states
        insort(self._sorted, ids)
        while sum(map(len, self._sorted)) > self.max_tokens:
            oldest = next(iter(self._states))
            del self._states[oldest], self._sorted[bisect(self._sorted, oldest) - 1]

    def longest(self, prompt: Ids) -> tuple[int, States]:
        """How many tokens of a prompt are there, and the states of a sequence that begins with
        them.
        """
        # In the order of tuples no sequence has more in common with the prompt than a neighbour.
        place = bisect(self._sorted, prompt)
        neighbours = self._sorted[max(0, place - 1) : place + 1]
        found = max(neighbours, key=lambda kept: num_common(kept, prompt), default=())
        return num_common(found, prompt), self._states.get(found, [])

    def clear(self) -> None:
        """Forget all: the weights have changed."""
        self._states.clear()
        self._sorted.clear()


def num_common(one: Ids, other: Ids) -> int:
    """How many tokens two sequences begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
