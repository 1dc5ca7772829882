"""Limits of an endpoint: requests and tokens per minute, and a breaker for one that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from rltf_verl.judge.wire import Reply

BURST_S = 1.0
"""Seconds of unused allowance that are kept; endpoints enforce limits per second as well as per
minute.
"""

CHARACTERS_PER_TOKEN = 3.0
"""Estimate for a text whose tokens are not counted."""

TEMPLATE_TOKENS = 512
"""Tokens that an endpoint may add to a message: its chat template, its system prompt."""

LONGEST_REPLY_TOKENS = 131_072
"""Bound for a request that leaves its reply's length to the endpoint."""

State = Literal["closed", "half_open", "open"]
LEVEL: dict[State, float] = {"closed": 0.0, "half_open": 0.5, "open": 1.0}


class RateLimit:
    """A leaky bucket: units per minute, first come, first served.

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
        # BURST_S of an unused past stay.
        self._free_at = max(self._free_at, now - BURST_S) + amount * self._seconds_per_unit

    def correct(self, amount: float) -> None:
        """A request turned out to need so many more (or, negative, fewer) units than it took."""
        self._free_at += amount * self._seconds_per_unit


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
        """True if a new call may go out now. The one let through while open is the probe."""
        if self.state == "closed":
            return True
        # A probe that never reports (its caller gave up) must not keep the breaker shut: the next
        # one follows in time.
        if now >= self._next_probe:
            self.state, self._next_probe = "half_open", now + self._probe_s
            return True
        return False

    def succeeded(self) -> None:
        """Record that the endpoint responded; a refusal counts."""
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


def possible(reply: Reply, body: Mapping[str, Any]) -> Reply:
    """The reply with no more tokens than its request can have cost, whatever the endpoint reports.

    A token has at least one byte, so a prompt has at most as many as its texts have bytes, and what
    is put around them.
    """
    num_bytes = sum(
        len(message["content"].encode("utf-8", "replace")) for message in body["messages"]
    )
    most = (
        num_bytes + TEMPLATE_TOKENS * len(body["messages"]),
        _longest_reply(body) or LONGEST_REPLY_TOKENS,
    )
    used = [
        max(0, min(n, top))
        for n, top in zip((reply.prompt_tokens, reply.completion_tokens), most, strict=True)
    ]
    return replace(reply, prompt_tokens=used[0], completion_tokens=used[1])


def guessed_tokens(body: Mapping[str, Any], reply: Reply | None = None) -> float:
    """Estimated tokens of a request: before its reply, or with a reply without a count."""
    prompt = sum(len(message["content"]) for message in body["messages"]) / CHARACTERS_PER_TOKEN
    return prompt + (
        (_longest_reply(body) or 0) if reply is None else len(reply.text) / CHARACTERS_PER_TOKEN
    )


def _longest_reply(body: Mapping[str, Any]) -> int | None:
    """The longest reply that the request asks for, under either of the field's names."""
    limits = (body.get("max_tokens"), body.get("max_completion_tokens"))
    return next((limit for limit in limits if isinstance(limit, int) and limit > 0), None)
