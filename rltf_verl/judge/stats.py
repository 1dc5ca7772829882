"""Counts of a runtime: for the trainer's metrics since the last look, and since the start."""

from __future__ import annotations

from collections import Counter, deque

from rltf_verl.judge.settings import Price
from rltf_verl.judge.wire import Reply

KEPT = 10_000
"""Latencies that quantiles are taken from, at most."""


class Stats:
    """Counters and latencies of one runtime.

    Every call ends in exactly one of `answered`, `cache_hits`, `failed/<kind>`; every request in
    exactly one of `answered_requests`, `faults/<kind>`.
    """

    def __init__(self) -> None:
        self.since_start: Counter[str] = Counter()
        self.in_flight = 0
        self.waiting = 0
        self.cost = 0.0
        self._clear()

    def _clear(self) -> None:
        self._counts: Counter[str] = Counter()
        self._latencies: deque[float] = deque(maxlen=KEPT)
        self._requests: deque[float] = deque(maxlen=KEPT)
        self._cost_before = self.cost
        self._waiting_peak = self.waiting
        self._in_flight_peak = self.in_flight

    def count(self, what: str, amount: int = 1) -> None:
        """Add to a counter."""
        self._counts[what] += amount
        self.since_start[what] += amount

    def enters_queue(self) -> None:
        """A call begins to wait for its turn."""
        self.waiting += 1
        self._waiting_peak = max(self._waiting_peak, self.waiting)

    def leaves_queue(self) -> None:
        """Its turn has come, or it gave up."""
        self.waiting -= 1

    def request_starts(self) -> None:
        """A request goes out."""
        self.in_flight += 1
        self._in_flight_peak = max(self._in_flight_peak, self.in_flight)

    def request_ends(self) -> None:
        """It is answered or given up."""
        self.in_flight -= 1

    def paid(self, reply: Reply, price: Price) -> None:
        """The endpoint charges for a reply, a probe's too."""
        self.count("prompt_tokens", reply.prompt_tokens)
        self.count("completion_tokens", reply.completion_tokens)
        self.cost += price.of(reply.prompt_tokens, reply.completion_tokens)

    def answered(self, call_s: float, request_s: float) -> None:
        """A call was answered by the endpoint."""
        self.count("answered")
        self._latencies.append(call_s)
        self._requests.append(request_s)

    def snapshot(self) -> dict[str, float]:
        """Metrics since the last snapshot; what ends in `_run` is since the start. Shares are of
        calls or requests.

        Names avoid what verl reduces by substring (max, min, sum, total), but for a last component
        that means it.
        """
        counts, calls = self._counts, self._counts["calls"]
        values = {
            "calls": float(calls),
            "queue": float(self.waiting),
            "queue/max": float(self._waiting_peak),
            "in_flight/max": float(self._in_flight_peak),
            "cost": self.cost - self._cost_before,
            "cost_run": self.cost,
            "tokens_run": float(
                self.since_start["prompt_tokens"] + self.since_start["completion_tokens"]
            ),
        }
        if calls:
            failed = _part(counts, "failed/")
            values["cache_hit_share"] = counts["cache_hits"] / calls
            values["failed_share"] = sum(failed.values()) / calls
            values["retries_per_call"] = counts["retries"] / calls
            for name, amount in (failed | _part(counts, "noted/")).items():
                values[f"{name}_share"] = amount / calls
        if counts["requests"]:
            for name, amount in _part(counts, "faults/").items():
                values[f"{name}_share"] = amount / counts["requests"]
        if counts["answered"]:
            values["prompt_tokens"] = counts["prompt_tokens"] / counts["answered"]
            values["completion_tokens"] = counts["completion_tokens"] / counts["answered"]
            values |= _quantiles("latency", self._latencies) | _quantiles("request", self._requests)
        self._clear()
        return values


def _part(counts: Counter[str], prefix: str) -> dict[str, int]:
    return {name: amount for name, amount in counts.items() if name.startswith(prefix)}


def _quantiles(name: str, seconds: deque[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    at = {q: ordered[min(len(ordered) - 1, len(ordered) * q // 100)] for q in (50, 90, 99)}
    return {f"{name}_p{q}_s": value for q, value in at.items()}
