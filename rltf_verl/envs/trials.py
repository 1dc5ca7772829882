"""Grades that are asked for before a run starts: no one waits long for them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)

MOST_S = 20.0
"""Seconds for all of them. One that has begun is waited for."""
EARLY_S = 3.0
"""Seconds of one, after which a line says why nothing happens."""


class OutOfTimeError(Exception):
    """The seconds are used up."""


class Trials:
    """The grades of one command before its run, timed together.

    Args:
        most_s: seconds for all of them.
        tell: shows a line at once.
    """

    def __init__(
        self, most_s: float = MOST_S, tell: Callable[[str], None] = logger.warning
    ) -> None:
        self.most_s, self._tell = most_s, tell
        self.left_out: list[str] = []
        """What no one looked at, because the seconds were used up."""
        self._spent_s = self._slowest_s = 0.0
        self._told = False

    @contextmanager
    def timed(self, share: float = 1.0) -> Iterator[None]:
        """Around a grade. Raises OutOfTimeError if this share of the seconds is used up."""
        if self._spent_s >= share * self.most_s:
            raise OutOfTimeError
        early = threading.Timer(EARLY_S, self._say_why)
        early.daemon = True
        start = time.monotonic()
        early.start()
        try:
            yield
        finally:
            early.cancel()
            took = time.monotonic() - start
            self._spent_s += took
            self._slowest_s = max(self._slowest_s, took)

    def lines(self) -> list[str]:
        """What was left out, and why; empty if nothing was."""
        if not self.left_out:
            return []
        return [
            f"grading an answer takes {self._slowest_s:.1f} s: the checks before the run have"
            f" {self.most_s:g} s for it, so these were left out: {'; '.join(self.left_out)}"
        ]

    def _say_why(self) -> None:
        if not self._told:
            self._told = True
            self._tell(
                f"waiting for the grader, which has an answer for more than {EARLY_S:g} s (the"
                f" checks before the run stop after {self.most_s:g} s of grading)"
            )
