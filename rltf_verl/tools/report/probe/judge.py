"""The cost of a judge per training step, by an episode log: calls, seconds, money."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from rltf_verl.judge.settings import JudgeLimits, Price
from rltf_verl.runlog.turns import Record, fell_back
from rltf_verl.tools.report.probe.measures import Quantiles, TrainingRun, quantiles


@dataclass(frozen=True)
class JudgeLoad:
    """The cost of a judge's texts. Calls without one are in `calls_per_episode` only."""

    texts: int
    calls_per_episode: float
    calls_per_step: float
    latency_s: Quantiles | None
    """Over texts that no cache held, with queue, requests, waits and the guard."""
    prompt_tokens: float
    """Mean."""
    completion_tokens: float
    cost_per_episode: float | None
    """None: no price is set, or the endpoint counts no tokens."""
    cost_per_step: float | None
    seconds_per_step: float | None
    """At the limit that binds."""
    bound_by: str | None
    """That limit."""


def judge_load(
    records: Sequence[Record], run: TrainingRun, limits: JudgeLimits, price: Price
) -> JudgeLoad | None:
    """None if no judge was asked."""
    turns = [turn for record in records for turn in record["turns"]]
    given = [text for turn in turns for text in (turn["feedback"], turn.get("withheld")) if text]
    texts = [text for text in given if not text["fallback"]]
    failed = sum(
        turn["stop"] == "feedback_unavailable" or fell_back([turn])
        for turn in turns
        if not turn.get("withheld")
    )
    if not texts and not failed:
        return None
    calls = (len(texts) + failed) / len(records)
    fresh = [text["latency_s"] for text in texts if not text.get("cached")]
    prompt = sum(text.get("prompt_tokens", 0) for text in texts) / max(1, len(texts))
    completion = sum(text.get("completion_tokens", 0) for text in texts) / max(1, len(texts))
    cost = calls * price.of(prompt, completion) or None
    # of the run to come, not of the episodes here
    per_step = run.problems * run.sessions
    seconds, bound_by = _seconds(calls * per_step, fresh, prompt + completion, limits)
    return JudgeLoad(
        texts=len(texts),
        calls_per_episode=calls,
        calls_per_step=calls * per_step,
        latency_s=quantiles(fresh),
        prompt_tokens=prompt,
        completion_tokens=completion,
        cost_per_episode=cost,
        cost_per_step=None if cost is None else cost * per_step,
        seconds_per_step=seconds,
        bound_by=bound_by,
    )


def _seconds(
    calls: float, latencies: Sequence[float], tokens: float, limits: JudgeLimits
) -> tuple[float | None, str | None]:
    """The longest of what the limits ask for. Little's law: c calls on their way at once end c /
    latency a second.
    """
    if not latencies:
        return None, None
    at_once = max(1.0, min(calls, limits.max_concurrency))
    needed = {"max_concurrency": calls * fmean(latencies) / at_once}
    if limits.requests_per_minute is not None:
        needed["requests_per_minute"] = 60 * calls / limits.requests_per_minute
    if limits.tokens_per_minute is not None:
        needed["tokens_per_minute"] = 60 * calls * tokens / limits.tokens_per_minute
    bound_by = max(needed, key=lambda name: needed[name])
    return needed[bound_by], bound_by
