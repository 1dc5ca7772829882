"""Code of a run that is called before it starts, within a time for all calls."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rltf_verl.findings import Finding
from rltf_verl.stuck import ended_if_stuck

logger = logging.getLogger(__name__)

MOST_S = 20.0
"""Seconds for all calls but the first, which may start a grader's processes. A call that has begun
is waited for."""
EARLY_S = 3.0
"""Seconds of one call, after which a line explains the wait."""
STUCK_S = 120.0
"""Seconds in which no other thread has run."""


class OutOfTimeError(Exception):
    """The seconds are used up."""


class DryRun:
    """The calls of one command before its run, timed together.

    Args:
        most_s: seconds for all of them.
        tell: shows a line at once.
    """

    def __init__(
        self, most_s: float = MOST_S, tell: Callable[[str], None] = logger.warning
    ) -> None:
        self.most_s, self._tell = most_s, tell
        self.left_out: list[str] = []
        """Checks that were left out, because the seconds were used up."""
        self.seconds: list[float] = []
        """Of each call."""
        self._has_told = False

    @contextmanager
    def timed(self, share: float = 1.0) -> Iterator[None]:
        """Around a call. Raises OutOfTimeError if this share of the seconds is used up."""
        if sum(self.seconds[1:]) >= share * self.most_s:
            raise OutOfTimeError
        start = time.monotonic()
        try:
            with self.explained("the grader"), ended_if_stuck(STUCK_S):
                yield
        finally:
            self.seconds.append(time.monotonic() - start)

    @contextmanager
    def explained(self, who: str) -> Iterator[None]:
        """Around a wait: shows a line, once, if it lasts longer than `EARLY_S`."""
        early = threading.Timer(EARLY_S, self._explain, [who])
        early.daemon = True
        early.start()
        try:
            yield
        finally:
            early.cancel()

    def findings(self) -> Iterator[Finding]:
        """The checks that were left out, in one line."""
        if self.left_out:
            why = f"grading an answer takes {max(self.seconds[1:]):.1f} s"
            fix = (
                f"the checks before the run have {self.most_s:g} s for it, so these were left out:"
                f" {'; '.join(self.left_out)}"
            )
            yield Finding("", None, why, fix, "warning")

    def _explain(self, who: str) -> None:
        if not self._has_told:
            self._has_told = True
            self._tell(
                f"waiting for {who}, which needs more than {EARLY_S:g} s (the checks before the run"
                f" stop after {self.most_s:g} s of grading)"
            )
