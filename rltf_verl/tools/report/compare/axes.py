"""What a run had spent by a step. All runs of a picture are measured the same way.

Sums need every step: where the first ones are gone (verl erases its file when a run is resumed),
there is no sum. A few steps inside, which a killed process left without a line, count as much as
their neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from rltf_verl.texts import counted
from rltf_verl.tools.report.compare.run import SESSIONS, TOKENS, Arm, RunMetrics, Series

_COST = re.compile(r"rltf/feedback/judge(_\d+)?/cost")
_HOUR = 3600.0
FEW = 3
"""Steps without a number that may be filled in, or this many of hundred steps: 1."""


class NoAxisError(Exception):
    """Why a run cannot give an axis."""


@dataclass(frozen=True)
class AxisSource:
    """A way to take an axis of a run."""

    label: str
    """With the unit."""
    of: Callable[[RunMetrics], Series]
    """What was spent by the end of each step. Raises NoAxisError."""


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


def _generated(run: RunMetrics) -> Series:
    tokens = run.series(TOKENS)
    if tokens.keys() != run.log.keys():
        raise NoAxisError(
            "the policy writes its own feedback, and the episode log does not count those tokens"
        )
    return _of_log(run, tokens)


def _of_log(run: RunMetrics, amounts: Series) -> Series:
    trained = list(run.series(SESSIONS))
    if not trained:
        raise NoAxisError(
            "no episode log with training episodes; name the folder of the run's checkpoints"
        )
    if trained[0] > 1:
        raise NoAxisError(f"its episode log begins with step {trained[0]}")
    return _sums({step: amount for step, amount in amounts.items() if step <= trained[-1]})


def _summed(label: str, metric: str, unit: float = 1.0) -> AxisSource:
    """The sum of a metric over the steps, in units of so many."""

    def of(run: RunMetrics) -> Series:
        amounts = run.series(metric)
        if not amounts:
            raise NoAxisError(f"no {metric}")
        return _sums({step: amount / unit for step, amount in _filled(amounts, metric).items()})

    return AxisSource(label, of)


def _runtime(run: RunMetrics) -> Series:
    seconds = run.series("_runtime")
    if not seconds:
        raise NoAxisError("no timing_s/step and no _runtime")
    values = list(seconds.values())
    if values != sorted(values):
        raise NoAxisError("its _runtime starts again with another process")
    return {step: value / _HOUR for step, value in seconds.items()}


def _cost(run: RunMetrics) -> Series:
    costs: dict[int, float] = {}
    known = False
    for step, metrics in run.metrics.items():
        of_step = [value for name, value in metrics.items() if _COST.fullmatch(name)]
        known = known or bool(of_step)
        # A step without the metric: the judge was too busy to report; the next step reports both.
        costs[step] = sum(of_step)
    if not known:
        raise NoAxisError("no rltf/feedback/judge/cost; it asks no judge, or has no metrics")
    sums = _sums(_filled(costs, "metrics"))
    if not any(sums.values()):
        raise NoAxisError("the judge cost nothing; is rltf.feedback.price set?")
    return sums


def _filled(amounts: Series, what: str) -> Series:
    """With a number between its neighbours' for a missing step. Raises NoAxisError: too many are
    missing, or the first ones.
    """
    known = sorted(step for step in amounts if step > 0)
    every = range(1, max(known, default=0) + 1)
    missing = sorted(set(every) - set(known))
    if not missing:
        return amounts
    if known[0] > 1 or len(missing) > max(FEW, known[-1] // 100):
        first, last = missing[0], missing[-1]
        raise NoAxisError(f"no {what} of {counted(len(missing), 'step')} from {first} to {last}")
    values = np.interp(every, known, [amounts[step] for step in known])
    return {0: amounts.get(0, 0.0), **dict(zip(every, values.tolist(), strict=True))}


def _sums(amounts: Series) -> Series:
    """Also at step 0, where nothing is spent."""
    steps = sorted({0, *amounts})
    return dict(zip(steps, accumulate(amounts.get(step, 0.0) for step in steps), strict=True))


def _steps(run: RunMetrics) -> Series:
    return {step: float(step) for step in sorted({*run.metrics, *run.log})}


def _logged_episodes(run: RunMetrics) -> Series:
    return _of_log(run, {step: log.get(SESSIONS, 0.0) for step, log in run.log.items()})


SOURCES = {
    "step": [AxisSource("training step", _steps)],
    "rollouts": [
        _summed("training episodes", "rltf/session/total"),
        AxisSource("training episodes in the episode log", _logged_episodes),
    ],
    "tokens": [
        _summed("tokens generated in training episodes", "rltf/session/tokens/total"),
        AxisSource("tokens of the attempts in the episode log", _generated),
        _summed("tokens trained on (prompts and responses)", "perf/total_num_tokens"),
    ],
    "hours": [
        _summed("hours of training steps, without validation", "timing_s/step", _HOUR),
        AxisSource("hours since the start (wandb's _runtime)", _runtime),
    ],
    "cost": [AxisSource("judge cost (unit of rltf.feedback.price)", _cost)],
}
"""Axis -> the ways to take it; the one that most arms can give is used, of equals the first."""


def axis_of(name: str, arms: Sequence[Arm]) -> Axis | str:
    """The axis, or why no arm can give it.

    An arm is left out if any of its runs lacks the axis: fewer seeds would change its curve.
    """
    tried = [_taken(name, source, arms) for source in SOURCES[name]]
    best = min(tried, key=lambda axis: len(axis.without))
    if len(best.without) < len(arms):
        return best
    return "; ".join(dict.fromkeys(why for axis in tried for why in axis.without.values()))


def _taken(name: str, source: AxisSource, arms: Sequence[Arm]) -> Axis:
    axis = Axis(name, source.label, {}, {}, {})
    for arm in arms:
        try:
            taken = {run.name: source.of(run) for run in arm.runs}
        except NoAxisError as error:
            axis.without[arm.name] = str(error)
            continue
        axis.of.update(taken)
        for run in arm.runs:
            filled = [step for step in taken[run.name] if step > 0 and not run.has(step)]
            if filled:
                where = f"step {', '.join(map(str, filled))} of {run.name} in --x {name}"
                axis.filled[where] = "the run logged nothing there; its neighbours are taken"
    return axis
