"""Episodes that one process plays at the same time: progress, solutions and feedback, shared within
a problem's group and within the cohort of groups.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from rltf_verl.types import Problem

WAIT_S = 600.0
"""Longest wait for other episodes, seconds, where nothing else says so: one that never started
must not hold up the others for ever.
"""
T = TypeVar("T")
Member = tuple[Hashable, int]
"""A group's key and an episode of it."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Feedback on an episode's attempt."""

    problem: Problem
    text: str


class _Progress:
    """The turns that episodes have reached, and waiting for them."""

    def __init__(self) -> None:
        self._turns: dict[Hashable, int] = {}
        self._changed = asyncio.Event()

    def advance(self, episode: Hashable, turn: int) -> None:
        """An episode has reached a 0-based turn."""
        self._turns[episode] = max(turn, self._turns.get(episode, -1))
        # Wakes all that wait now; later callers wait for the next change.
        self._changed.set()
        self._changed = asyncio.Event()

    def num_at(self, turn: int) -> int:
        """Number of episodes that have reached it."""
        return sum(reached >= turn for reached in self._turns.values())

    async def until(self, holds: Callable[[], bool], wait_s: float) -> None:
        """Wait until the condition holds, at most `wait_s`."""
        deadline = asyncio.get_running_loop().time() + wait_s
        while not holds():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except asyncio.TimeoutError:  # the builtin TimeoutError from Python 3.11 on
                return


class Cohort:
    """The groups of one call of the worker: a step's (or a validation's) problems, as far as this
    process plays them.

    An episode is past a turn when its provider has spoken there, or has nothing to say, or the
    episode plays a later turn or no more. An episode that waits is past the turn itself, so waits
    form no circle (as in `group.Group`).

    Args:
        keys: of the groups, in the data's order.
        size: episodes per group.
    """

    def __init__(self, keys: Sequence[Hashable], size: int) -> None:
        self._place = {key: i for i, key in enumerate(keys)}
        self._num = len(keys) * size
        self._progress = _Progress()
        self._remarks: dict[int, dict[Member, Remark]] = {}
        self.offers: dict[Member, Mapping[str, str]] = {}
        """Texts of an episode for teachers of other problems, by source (`rltf.teacher.reads`), put
        there before it ends."""

    def note_past(self, member: Member, turn: int, remark: Remark | None = None) -> None:
        """An episode is past a 0-based turn, with its feedback there."""
        if remark is not None:
            self._remarks.setdefault(turn, {})[member] = remark
        self._progress.advance(member, turn)

    async def remarks(self, turn: int, wait_s: float) -> list[Remark]:
        """The feedback at 0-based `turn`, in the order of the data and the episodes.

        Waits until all episodes are past the turn, at most `wait_s`: so the result does not depend
        on timing, and a resumed run gets the same.
        """
        await self._progress.until(lambda: self._progress.num_at(turn) >= self._num, wait_s)
        return self._in_order(self._remarks.get(turn, {}))

    async def other_offers(self, key: Hashable) -> list[Mapping[str, str]]:
        """Offers of other groups' episodes, in the order of the data, after all episodes have ended
        (at most `WAIT_S`).
        """
        await self._progress.until(lambda: self._progress.num_at(ENDED) >= self._num, WAIT_S)
        return self._in_order({at: texts for at, texts in self.offers.items() if at[0] != key})

    def _in_order(self, values: Mapping[Member, T]) -> list[T]:
        in_order = sorted(values, key=lambda member: (self._place[member[0]], member[1]))
        return [values[member] for member in in_order]


ENDED = 1 << 30
"""Progress of an episode that plays no more."""


@dataclass(frozen=True, slots=True)
class Solution:
    """A graded attempt of one episode."""

    turn: int
    """0-based."""
    session_id: int
    text: str
    correct: bool = True


@dataclass
class Group:
    """The episodes of one problem. They all run in one process and one event loop, so nothing here
    is locked.

    An episode that waits here waits for others to get as far as itself. The episode that is
    furthest behind therefore never waits, which is why they cannot wait for each other in a circle;
    an episode that is never started costs the others the bounded wait.
    """

    size: int
    """Number of episodes."""
    key: Hashable = None
    """Key of the group in its cohort."""
    cohort: Cohort | None = None
    """The groups that are played at the same time; None if unknown."""
    at_end: Callable[[], object] = lambda: None
    """Called when the last episode has ended."""
    _inside: Cohort = field(init=False)
    _progress: _Progress = field(default_factory=_Progress)
    _attempts: set[Solution] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._inside = Cohort([self.key], self.size)

    def note_grade(self, session_id: int, turn: int, text: str, *, correct: bool | None) -> None:
        """An episode's attempt of 0-based `turn` has its grade; None: no grade could be had."""
        if correct is not None:
            self._attempts.add(Solution(turn, session_id, text, correct))
        self._progress.advance(session_id, turn)
        self.note_past(session_id, turn - 1)

    def note_end(self, session_id: int) -> None:
        """An episode plays no more, however it ended."""
        self._progress.advance(session_id, ENDED)
        self.note_past(session_id, ENDED)
        if self._all_at(ENDED):
            self.at_end()

    def note_past(self, session_id: int, turn: int, remark: Remark | None = None) -> None:
        """Tell the group and its cohort (`Cohort.note_past`)."""
        for cohort in filter(None, (self._inside, self.cohort)):
            cohort.note_past((self.key, session_id), turn, remark)

    async def remarks(self, turn: int, wait_s: float) -> list[Remark]:
        """The feedback on this group's attempts at 0-based `turn` (`Cohort.remarks`)."""
        return await self._inside.remarks(turn, wait_s)

    async def solutions(
        self, session_id: int, turn: int, wait_s: float = WAIT_S, *, correct: bool = True
    ) -> list[Solution]:
        """The right attempts of other episodes by 0-based `turn`, or the wrong ones, in a fixed
        order.

        Waits until all of them are that far, at most `wait_s`: so what is found does not depend on
        who is faster, and a resumed run finds the same.
        """
        await self._progress.until(lambda: self._all_at(turn), wait_s)
        asked_for = [
            s
            for s in self._attempts
            if s.correct is correct and s.session_id != session_id and s.turn <= turn
        ]
        return sorted(asked_for, key=lambda s: (s.turn, s.session_id, s.text))

    async def failed(self, turn: int, wait_s: float = WAIT_S) -> bool:
        """True if no episode of the group, this one included, has solved the problem by 0-based
        `turn`.

        Waits as `solutions` does, but no longer than until one has. An episode that is not
        that far after `wait_s` counts as one that failed.
        """
        await self._progress.until(lambda: self._solved_by(turn) or self._all_at(turn), wait_s)
        return not self._solved_by(turn)

    def _solved_by(self, turn: int) -> bool:
        return any(s.correct and s.turn <= turn for s in self._attempts)

    def _all_at(self, turn: int) -> bool:
        return self._progress.num_at(turn) >= self.size


class Groups:
    """The groups of a process, each until all its episodes have ended.

    Args:
        capacity: groups that are remembered, because an episode may never start; more than are ever
            under way at once.
    """

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._groups: OrderedDict[Hashable, Group] = OrderedDict()

    def announce(self, keys: Sequence[Hashable], size: int) -> None:
        """Make the groups of a cohort, before any of its episodes is played."""
        cohort = Cohort(keys, size)
        self._capacity = max(self._capacity, 2 * len(keys))  # all of them, and the cohort before
        for key in keys:
            self._remember(key, Group(size, key, cohort))

    def of(self, key: Hashable, size: int) -> Group:
        """The group of a key, made at the first call."""
        return self._groups.get(key) or self._remember(key, Group(size, key))

    def _remember(self, key: Hashable, group: Group) -> Group:
        self._groups[key] = group
        group.at_end = partial(self._groups.pop, key, None)
        if len(self._groups) > self._capacity:
            # The oldest, of which an episode never started.
            self._groups.popitem(last=False)
        return group
