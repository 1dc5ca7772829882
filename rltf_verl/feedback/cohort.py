"""What episodes that one process plays at the same time know of each other's feedback."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from rltf_verl.types import Problem

Member = tuple[Hashable, int]
"""A group's key and an episode of it."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Feedback that an episode's provider gave, whoever reads it."""

    problem: Problem
    text: str
    pieces: tuple[str, ...]
    """The text that each of its tokens adds."""


class Cohort:
    """The groups of one call of the worker: a step's (or a validation's) problems, as far as this
    process plays them.

    An episode is past a turn when its provider has spoken there, or has nothing to say, or the
    episode plays a later turn or no more. Whoever waits is past the turn itself, so nobody waits in
    a circle (as in `group.Group`).

    Args:
        keys: of the groups, in the data's order.
        size: episodes per group.
    """

    def __init__(self, keys: Sequence[Hashable], size: int) -> None:
        self._place = {key: i for i, key in enumerate(keys)}
        self._num = len(keys) * size
        self._past: dict[Member, int] = {}
        self._said: dict[int, dict[Member, Remark]] = {}
        self._changed = asyncio.Event()

    def past(self, member: Member, turn: int, remark: Remark | None = None) -> None:
        """An episode has got past a 0-based turn, with what its provider said there."""
        if remark is not None:
            self._said.setdefault(turn, {})[member] = remark
        self._past[member] = max(turn, self._past.get(member, -1))
        # Wakes all that wait now; who comes later waits for the next change.
        self._changed.set()
        self._changed = asyncio.Event()

    async def said(self, turn: int, wait_s: float) -> list[Remark]:
        """What was said at 0-based `turn`, in the order of the data and the episodes.

        Waits until all episodes are past the turn, at most `wait_s`: so it does not depend on who
        is faster, and a resumed run finds the same.
        """
        deadline = asyncio.get_running_loop().time() + wait_s
        while sum(past >= turn for past in self._past.values()) < self._num:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except asyncio.TimeoutError:  # the builtin TimeoutError from Python 3.11 on
                break
        found = sorted(
            self._said.get(turn, {}).items(), key=lambda item: (self._place[item[0][0]], item[0][1])
        )
        return [remark for _, remark in found]
