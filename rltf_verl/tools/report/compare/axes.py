"""What a run had spent by a step. All runs of a picture are measured the same way.

Sums need every step: where the first ones are gone (verl erases its file when a run is resumed),
there is no sum. A few steps inside, which a killed process left without a line, count as much as
their neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rltf_verl.tools.report.compare.run import SESSIONS, TOKENS, Arm, Run, Series

_COST = re.compile(r"rltf/feedback/judge(_\d+)?/cost")
_HOUR = 3600.0
FEW = 3
"""Steps without a number that may be filled in, or this many of hundred steps: 1."""
LINES = "metrics"
"""What a measure of several metrics needs of every step."""


class NotKnownError(Exception):
    """Why a run cannot give an axis."""


@dataclass(frozen=True)
class Measure:
    """A way to take an axis of a run."""

    label: str
    """With the unit."""
    of: Callable[[Run], Series]
    """What was spent by the end of each step. Raises NotKnownError."""
    source: str | None = None
    """What it sums, of every step: a metric, or `LINES`."""


@dataclass(frozen=True)
class Axis:
    """One axis for all arms that can give it."""

    name: str
    label: str
    of: dict[str, Series]
    """Name of the run -> what it had spent by each step."""
    without: dict[str, str]
    """Name of an arm that is left out -> why."""
    filled: dict[str, str]
    """Steps without a number -> what stands for them."""


def _generated(run: Run) -> Series:
    tokens = run.series(TOKENS)
    if tokens.keys() != run.log.keys():
        raise NotKnownError(
            "the policy writes its own feedback, and the episode log does not count those tokens"
        )
    return _of_log(run, tokens)


def _of_log(run: Run, amounts: Series) -> Series:
    trained = list(run.series(SESSIONS))
    if not trained:
        raise NotKnownError(
            "no episode log with training episodes; name the folder of the run's checkpoints"
        )
    if trained[0] > 1:
        raise NotKnownError(f"its episode log begins with step {trained[0]}")
    return _sums({step: amount for step, amount in amounts.items() if step <= trained[-1]})


def _summed(label: str, metric: str, unit: float = 1.0) -> Measure:
    """The sum of a metric over the steps, in units of so many."""

    def of(run: Run) -> Series:
        amounts = run.series(metric)
        if not amounts:
            raise NotKnownError(f"no {metric}")
        amounts = _filled(amounts, metric)
        return _sums({step: amount / unit for step, amount in amounts.items()})

    return Measure(label, of, metric)


def _runtime(run: Run) -> Series:
    seconds = run.series("_runtime")
    if not seconds:
        raise NotKnownError("no timing_s/step and no _runtime")
    values = list(seconds.values())
    if values != sorted(values):
        raise NotKnownError("its _runtime starts again with another process")
    return {step: value / _HOUR for step, value in seconds.items()}


def _cost(run: Run) -> Series:
    costs = {
        step: [v for k, v in values.items() if _COST.fullmatch(k)]
        for step, values in run.metrics.items()
    }
    if not any(costs.values()):
        raise NotKnownError("no rltf/feedback/judge/cost; it asks no judge, or has no metrics")
    # A step without the metric: the judge was too busy to report; the next step reports both.
    sums = _sums(
        _filled({step: sum(values_of_step) for step, values_of_step in costs.items()}, LINES)
    )
    if not any(sums.values()):
        raise NotKnownError("the judge cost nothing; is rltf.feedback.price set?")
    return sums


def _filled(amounts: Series, what: str) -> Series:
    """With the mean of its neighbours for a missing step. Raises NotKnownError: too many are
    missing, or the first ones.
    """
    gone = _gone(amounts)
    if not gone:
        return amounts
    trained = sorted(step for step in amounts if step > 0)
    if trained[0] > 1 or len(gone) > max(FEW, trained[-1] // 100):
        which = f"steps {gone[0]} to {gone[-1]}" if len(gone) > 1 else f"step {gone[0]}"
        among = f"{len(gone)} steps among " if 1 < len(gone) <= gone[-1] - gone[0] else ""
        raise NotKnownError(f"no {what} of {among}{which}")
    neighbours = {
        step: (max(s for s in trained if s < step), min(s for s in trained if s > step))
        for step in gone
    }
    means = {step: (amounts[a] + amounts[b]) / 2 for step, (a, b) in neighbours.items()}
    return dict(sorted({**amounts, **means}.items()))


def _gone(steps: Iterable[int]) -> list[int]:
    there = set(steps)
    return [step for step in range(1, max(there, default=0) + 1) if step not in there]


def _sums(amounts: Series) -> Series:
    """Also at step 0, where nothing is spent."""
    steps = sorted({0, *amounts})
    return dict(zip(steps, accumulate(amounts.get(step, 0.0) for step in steps), strict=True))


MEASURES: dict[str, list[Measure]] = {
    "step": [
        Measure(
            "training step",
            lambda run: {step: float(step) for step in sorted({*run.metrics, *run.log})},
        )
    ],
    "rollouts": [
        _summed("training episodes", "rltf/session/total"),
        Measure(
            "training episodes in the episode log",
            lambda run: _of_log(run, {k: log.get(SESSIONS, 0.0) for k, log in run.log.items()}),
        ),
    ],
    "tokens": [
        _summed("tokens generated in training episodes", "rltf/session/tokens/total"),
        Measure("tokens of the attempts in the episode log", _generated),
        _summed("tokens trained on (prompts and responses)", "perf/total_num_tokens"),
    ],
    "hours": [
        _summed("hours of training steps, without validation", "timing_s/step", _HOUR),
        Measure("hours since the start (wandb's _runtime)", _runtime),
    ],
    "cost": [Measure("judge cost (unit of rltf.feedback.price)", _cost, LINES)],
}
"""Axis -> the ways to take it; the one that most arms can give is used, of equals the first."""


def axis_of(name: str, arms: Sequence[Arm]) -> Axis | str:
    """The axis, or why no arm can give it.

    An arm is left out if any of its runs lacks the axis: fewer seeds would change its curve.
    """
    tried = [_taken(name, measure, arms) for measure in MEASURES[name]]
    best = min(tried, key=lambda axis: len(axis.without))
    if len(best.without) < len(arms):
        return best
    return "; ".join(dict.fromkeys(why for axis in tried for why in axis.without.values()))


def _taken(name: str, measure: Measure, arms: Sequence[Arm]) -> Axis:
    axis = Axis(name, measure.label, {}, {}, {})
    for arm in arms:
        taken = _of_runs(measure, arm)
        if isinstance(taken, str):
            axis.without[arm.name] = taken
        else:
            axis.of.update(taken)
            axis.filled.update(pair for run in arm.runs for pair in _filled_in(name, measure, run))
    return axis


def _filled_in(name: str, measure: Measure, run: Run) -> Iterator[tuple[str, str]]:
    """The steps of a run that were filled in."""
    if measure.source is None:
        return
    gone = _gone(run.metrics if measure.source == LINES else run.series(measure.source))
    if gone:
        yield (
            f"step {', '.join(map(str, gone))} of {run.name} in --x {name}",
            f"the run logged no {measure.source} there; the mean of its neighbours is taken",
        )


def _of_runs(measure: Measure, arm: Arm) -> dict[str, Series] | str:
    try:
        return {run.name: measure.of(run) for run in arm.runs}
    except NotKnownError as error:
        return str(error)
