"""What a judge costs a training step: calls, seconds, money, by the episodes of an episode log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from rltf_verl.judge.settings import Limits, Price
from rltf_verl.runlog.turns import Record
from rltf_verl.tools.report.probe.measures import TrainingRun, quantile


@dataclass(frozen=True)
class JudgeLoad:
    """The cost of a judge's texts. Calls without one are in `calls_per_episode` only."""

    texts: int
    calls_per_session: float
    calls_per_step: float
    latency_p50_s: float | None
    """Median over texts that no cache held, with queue, requests, waits and the guard."""
    latency_p90_s: float | None
    latency_p99_s: float | None
    prompt_tokens: float
    """Mean."""
    completion_tokens: float
    cost_per_session: float | None
    """None: no price is set, or the endpoint counts no tokens."""
    cost_per_step: float | None
    seconds_per_step: float | None
    """At the limit that binds."""
    bound_by: str | None
    """That limit."""


def judge_load(
    records: Sequence[Record], run: TrainingRun, limits: Limits, price: Price
) -> JudgeLoad | None:
    """None if no judge was asked."""
    turns = [turn for record in records for turn in record["turns"]]
    texts = [text for turn in turns for text in _texts(turn)]
    failed = sum(map(_failed, turns))
    if not texts and not failed:
        return None
    calls = (len(texts) + failed) / len(records)
    fresh = [text["latency_s"] for text in texts if not text.get("cached")]
    prompt, completion = _mean(texts, "prompt_tokens"), _mean(texts, "completion_tokens")
    cost = _cost(prompt, completion, calls, price)
    # of the run to come, not of the episodes here
    sessions = run.problems * run.sessions
    seconds, bound_by = _seconds(calls * sessions, fresh, prompt + completion, limits)
    p50, p90, p99 = (quantile(fresh, share) if fresh else None for share in (0.5, 0.9, 0.99))
    return JudgeLoad(
        texts=len(texts),
        calls_per_session=calls,
        calls_per_step=calls * sessions,
        latency_p50_s=p50,
        latency_p90_s=p90,
        latency_p99_s=p99,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cost_per_session=cost,
        cost_per_step=None if cost is None else cost * sessions,
        seconds_per_step=seconds,
        bound_by=bound_by,
    )


def _texts(turn: Record) -> list[Record]:
    """What the judge wrote, passed on or kept back."""
    return [
        text for text in (turn["feedback"], turn.get("withheld")) if text and not text["fallback"]
    ]


def _failed(turn: Record) -> bool:
    """The judge was asked, and wrote nothing."""
    if turn.get("withheld"):
        return False
    replaced = turn["feedback"] is not None and bool(turn["feedback"]["fallback"])
    return replaced or bool(turn["stop"] == "feedback_unavailable")


def _mean(texts: Sequence[Record], name: str) -> float:
    return fmean(text.get(name, 0) for text in texts) if texts else 0.0


def _cost(prompt: float, completion: float, calls: float, price: Price) -> float | None:
    if not (price.prompt or price.completion) or not (prompt or completion):
        return None
    return calls * (prompt * price.prompt + completion * price.completion) / 1e6


def _seconds(
    calls: float, latencies: Sequence[float], tokens: float, limits: Limits
) -> tuple[float | None, str | None]:
    """The longest of what the limits ask for. Little's law: c calls on their way at once end c /
    latency a second.
    """
    if not latencies:
        return None, None
    # a step with fewer calls than the limit has all of them on their way
    at_once = max(1.0, min(calls, limits.max_concurrency))
    needed = {"max_concurrency": calls * fmean(latencies) / at_once}
    if limits.requests_per_minute is not None:
        needed["requests_per_minute"] = 60 * calls / limits.requests_per_minute
    if limits.tokens_per_minute is not None:
        needed["tokens_per_minute"] = 60 * calls * tokens / limits.tokens_per_minute
    bound_by = max(needed, key=lambda name: needed[name])
    return needed[bound_by], bound_by
