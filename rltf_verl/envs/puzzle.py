"""Common parts of the release's three puzzles: modes, styles, and how their splits are drawn."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

from rltf_verl.envs.base import Env, Splits, number_problems, require_counts
from rltf_verl.types import Problem

Mode = Literal["official", "strict"]
Style = Literal["official", "compact"]


class Puzzle(Env):
    """A puzzle that a program makes.

    Args:
        mode: `official` repeats the release's items and its grader; `strict` is without their
            faults.
        style: `official` wording, or `compact` for small character-level models.
    """

    def __init__(self, mode: Mode, style: Style) -> None:
        self._official, self._compact = mode == "official", style == "compact"

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Make the problems of both splits.

        `official`: one sequence, its last `num_test` items are the test split. `strict`: different
        test items, and training items (which may repeat) that are none of them.

        Raises:
            ValueError: a negative number, or too few different items; names the fix.
        """
        require_counts(num_train, num_test)
        if self._official:
            items = self._release_items(seed, num_train + num_test)
            return number_problems(self._problem, items[:num_train], items[num_train:])
        rng, taken = random.Random(seed), set[str]()
        # The test split first: what it has is taken.
        test = self._strict_items(rng, num_test, taken, distinct=True)
        train = self._strict_items(rng, num_train, taken, distinct=False)
        return number_problems(self._problem, train, test)

    @abstractmethod
    def _release_items(self, seed: int, num: int) -> Sequence[Any]:
        """The release's items, in its order."""

    @abstractmethod
    def _strict_items(
        self, rng: random.Random, num: int, taken: set[str], *, distinct: bool
    ) -> Sequence[Any]:
        """Items that are not in `taken`; with `distinct` they are added to it."""

    @abstractmethod
    def _problem(self, index: int, item: Any) -> Problem:
        """The problem of an item."""
