"""So many units per minute, handed out in the order in which they were asked for."""

from __future__ import annotations

BURST_S = 1.0
"""Seconds of unused allowance that are kept; endpoints enforce limits per second as well as per
minute.
"""


class Pace:
    """A leaky bucket that says how long to wait.

    Over any stretch of t seconds it hands out at most `per_minute · (t + BURST_S) / 60` units, plus
    one request's share that was still running up to it.

    Args:
        per_minute: units per minute; None is no limit.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._seconds_per_unit = 60.0 / per_minute if per_minute else 0.0
        self._free_at = float("-inf")

    def wait(self, now: float) -> float:
        """Seconds until the next request may start, if it asks now."""
        return max(0.0, self._free_at - now)

    def take(self, now: float, amount: float) -> None:
        """The next request in line takes this many units. Its own start is `wait(now)` away; call
        that first.
        """
        self._free_at = max(self._free_at, now - BURST_S) + amount * self._seconds_per_unit

    def correct(self, amount: float) -> None:
        """A request turned out to need so many more (or, negative, fewer) units than it took."""
        self._free_at += amount * self._seconds_per_unit
