"""A circuit breaker: when the endpoint is gone, calls fail at once instead of one deadline after
the other.
"""

from __future__ import annotations

from typing import Literal

State = Literal["closed", "half_open", "open"]
LEVEL: dict[State, float] = {"closed": 0.0, "half_open": 0.5, "open": 1.0}


class Breaker:
    """Closed while requests succeed; open after `failures` in a row without a success for
    `after_s`.

    A short outage therefore only costs retries. While open, one call per `probe_s` goes through
    (half-open); its success closes the breaker.

    Args:
        failures: failed requests in a row.
        after_s: seconds without a success that these must span.
        probe_s: seconds between probes.
    """

    def __init__(self, failures: int, after_s: float, probe_s: float) -> None:
        self._failures, self._after_s, self._probe_s = failures, after_s, probe_s
        self._in_a_row = 0
        self._failing_since = 0.0
        self._next_probe = 0.0
        self.state: State = "closed"
        self.num_opened = 0

    def admit(self, now: float) -> bool:
        """Whether a new call may go out now. The call that is let through while open is the
        probe.
        """
        if self.state == "closed":
            return True
        # A probe that never reports (its caller gave up) must not keep the breaker shut: the next
        # one follows in time.
        if now >= self._next_probe:
            self.state, self._next_probe = "half_open", now + self._probe_s
            return True
        return False

    def succeeded(self) -> None:
        """The endpoint answered a request, even if it refused it."""
        self._in_a_row, self.state = 0, "closed"

    def failed(self, now: float) -> None:
        """The endpoint did not answer, or broke while it did."""
        if self._in_a_row == 0:
            self._failing_since = now
        self._in_a_row += 1
        lasting = self._in_a_row >= self._failures and now - self._failing_since >= self._after_s
        if self.state == "half_open" or (self.state == "closed" and lasting):
            self.num_opened += self.state == "closed"
            self.state, self._next_probe = "open", now + self._probe_s

    def down_for(self, now: float) -> float:
        """Seconds since the first of the failures in a row."""
        return now - self._failing_since if self._in_a_row else 0.0
