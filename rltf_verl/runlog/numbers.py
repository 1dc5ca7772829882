"""Facts of episodes -> the numbers of docs/metrics.md, the same in training, validation,
evaluation, the log's statistics and the viewer.

An attempt whose grader was out of reach is neither right nor wrong: it is in no denominator. A tree
of revisions counts attempt by attempt where attempts are counted, and once where episodes are
(`solved`, `standing`, `friction`): as the mean over its lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rltf_verl.feedback import provider_names
from rltf_verl.runlog.facts import TurnFacts, turn_facts
from rltf_verl.runlog.turns import Record

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Cases(NamedTuple):
    """What a number is the mean of: C values ([C]), and the episode of each ([C])."""

    values: Floats
    episode: Integers

    def mean(self) -> float | None:
        """None of nothing."""
        return float(self.values.mean()) if len(self.values) else None


@dataclass(frozen=True)
class EpisodeTable:
    """S episodes as their T turns, one episode after the other, parents before children."""

    fact: Mapping[str, Floats]
    """[T] each field of `TurnFacts`."""
    episode: Integers
    """[T], ascending."""
    horizon: Floats
    """[S] most turns of a line that the episode was to have."""

    @classmethod
    def of(cls, records: Sequence[Record]) -> EpisodeTable:
        """Of an episode log's episodes."""
        turns = [turn_facts(record["turns"]) for record in records]
        facts = list(chain.from_iterable(turns))
        return cls(
            {f.name: np.array([getattr(t, f.name) for t in facts]) for f in fields(TurnFacts)},
            np.repeat(np.arange(len(turns)), np.array(list(map(len, turns)), dtype=np.int64)),
            np.array([record.get("horizon") or np.inf for record in records]),
        )

    def answers(self, k: int) -> dict[str, Cases]:
        """Numbers of the attempts at 0-based turn k, and of the episodes that may reach it."""
        here, fact = self.depth == k, self.fact
        graded = here & self._graded
        return {
            "acc": self._cases(self._right, graded),
            "format": self._cases(fact["format_ok"], graded & (fact["grader_error"] == 0)),
            "reward": self._cases(fact["reward"], here),
            "tokens": self._cases(fact["response_tokens"], here),
            "truncated": self._cases(1 - fact["ended"], here),
            "solved": self._solved(k),
            "standing": self._standing(k),
            "improvement": self._improvement(k),
        }

    def revisions(self, k: int | None = None) -> dict[str, Cases]:
        """Numbers of the graded revisions of graded attempts: those at 0-based turn k, or all."""
        pair = self._graded & self._graded[self.parent] & (self.parent >= 0)
        if k is not None:
            pair &= self.depth == k
        before, after = self._right[self.parent], self._right
        return {
            "fixed": self._cases(after & ~before, pair),
            "broken": self._cases(before & ~after, pair),
            "gain": self._cases(after.astype(float) - before, pair),
            "corrected": self._cases(after, pair & ~before),
            "spoiled": self._cases(~after, pair & before),
            "plasticity": self._cases(self.fact["changed"], pair),
            "repeated": self._cases(self.fact["repeated"], pair),
        }

    def friction(self) -> Cases:
        """Of the episodes that began wrong and went on: wrong at the end."""
        first, last = self._at(0), self._ends
        began_wrong = self._graded[first] & ~self._right[first]
        known = self._graded[last] & began_wrong & (self.depth[last] > 0)
        return self._of_episodes(~self._right[last], known)

    def share_of_episodes(self, turns: Bools) -> float:
        """Of all episodes: those that have one of these turns ([T])."""
        return len(np.unique(self.episode[turns])) / len(self.horizon)

    def graders(self) -> dict[str, Cases]:
        """Numbers of all attempts."""
        every = np.ones(len(self.episode), dtype=bool)
        return {
            "error_share": self._cases(self.fact["grader_error"], every),
            "ungraded_share": self._cases(self.fact["ungraded"], every),
        }

    def feedback(self) -> dict[str, Cases]:
        """Numbers of the feedback that was asked for, written, looked at and given."""
        fact = self.fact
        has_text, withheld, failed = (
            fact[name] > 0 for name in ("feedback", "withheld", "feedback_failed")
        )
        looked = fact["feedback_leak"] >= 0
        numbers = {
            "failed_share": self._cases(failed, has_text | failed),
            "fallback_share": self._cases(fact["feedback_fallback"], has_text | failed),
            "withheld_share": self._cases(withheld, has_text | withheld),
            "latency_s": self._cases(fact["feedback_latency_s"], has_text),
            "words": self._cases(fact["feedback_words"], has_text),
            "no_op": self._cases(fact["no_op"], has_text),
            "leak_share": self._cases(fact["feedback_leak"], looked),
        }
        names = (*provider_names(), "other")  # the last one is at −1
        for i in np.unique(fact["feedback_provider"][looked]).astype(int):
            by_one = looked & (fact["feedback_provider"] == i)
            numbers[f"leak_share/{names[i]}"] = self._cases(fact["feedback_leak"], by_one)
        return numbers

    @cached_property
    def parent(self) -> Integers:
        """[T] position among all turns of the one that is revised; −1: none."""
        start = np.searchsorted(self.episode, np.arange(len(self.horizon)))
        inside = self.fact["parent"].astype(np.int64)
        return np.where(inside < 0, -1, start[self.episode] + inside)

    @cached_property
    def depth(self) -> Integers:
        """[T] 0-based number of the turn in its line."""
        depth, above = np.zeros_like(self.parent), self.parent
        while (has := above >= 0).any():
            depth += has
            above = np.where(has, self.parent[above], -1)
        return depth

    @cached_property
    def num_turns(self) -> int:
        """Of the longest line."""
        return int(self.depth.max(initial=-1)) + 1

    @cached_property
    def _graded(self) -> Bools:
        graded: Bools = self.fact["ungraded"] == 0
        return graded

    @cached_property
    def _right(self) -> Bools:
        return self._graded & (self.fact["correct"] > 0)

    @cached_property
    def _ends(self) -> Integers:
        """[L] the last turn of each line."""
        return np.setdiff1d(np.arange(len(self.episode)), self.parent)

    def _at(self, k: int) -> Integers:
        """[L] turn k of each line; the last one of a shorter line."""
        return self._lines[min(k, len(self._lines) - 1)]

    @cached_property
    def _lines(self) -> list[Integers]:
        """`_at` of every k: from the ends up, one turn at a time."""
        lines = [self._ends]
        for k in reversed(range(self.num_turns - 1)):
            at = lines[-1]
            lines.append(np.where(self.depth[at] > k, self.parent[at], at))
        return lines[::-1]

    def _standing(self, k: int) -> Cases:
        """The last answer by turn k is right."""
        at = self._at(k)
        return self._of_episodes(self._right[at], self._graded[at] & self._may_reach(k))

    def _solved(self, k: int) -> Cases:
        """Some answer by turn k is right."""
        at = self._at(k)
        known = self._right_so_far | ~self._ungraded_so_far
        return self._of_episodes(self._right_so_far[at], known[at] & self._may_reach(k))

    def _improvement(self, k: int) -> Cases:
        """`standing` after turn k minus that after the first, in the same episodes."""
        now, first = self._standing(k), self._standing(0)
        both, i, j = np.intersect1d(now.episode, first.episode, return_indices=True)
        return Cases(now.values[i] - first.values[j], both)

    def _may_reach(self, k: int) -> Bools:
        """[L] not in validations of first answers only."""
        return self.horizon[self.episode[self._ends]] > k

    @cached_property
    def _right_so_far(self) -> Bools:
        return self._so_far(self._right)

    @cached_property
    def _ungraded_so_far(self) -> Bools:
        return self._so_far(~self._graded)

    def _so_far(self, is_one: Bools) -> Bools:
        """[T] whether the turn or one above it is one of these ([T])."""
        so_far = is_one.copy()
        for k in range(1, self.num_turns):
            here = np.flatnonzero(self.depth == k)
            so_far[here] |= so_far[self.parent[here]]
        return so_far

    def _of_episodes(self, values: Bools, known: Bools) -> Cases:
        """Values of lines ([L]) -> of each episode the mean over the lines of which it is known."""
        episode = self.episode[self._ends][known]
        num = np.bincount(episode, minlength=len(self.horizon))
        total = np.bincount(episode, values[known], len(self.horizon))
        counts = np.flatnonzero(num)
        return Cases(total[counts] / num[counts], counts)

    def _cases(self, values: NDArray[np.generic], where: Bools) -> Cases:
        """[T] values of these turns ([T])."""
        return Cases(values[where].astype(np.float64), self.episode[where])
