"""A run's spending by a step. All runs of a picture are measured the same way.

Sums need every step: where the first ones are gone (verl erases its file when a run is resumed),
there is no sum. A few steps inside, which a killed process left without a line, count as much as
their neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from rltf_verl.texts import counted
from rltf_verl.tools.report.compare.run import LOG, SESSIONS, TOKENS, Arm, column

# `judge`, or `judge_2` for a second endpoint
_COST = r"^rltf/feedback/judge(_\d+)?/cost$"
FEW = 3
"""Steps without a number that may be filled in, or this many of hundred steps: 1."""


class NoAxisError(Exception):
    """Why a run cannot give an axis."""


@dataclass(frozen=True)
class AxisSource:
    """A way to take an axis of a run."""

    label: str
    """With the unit."""
    spent: Callable[[pd.DataFrame], pd.Series]
    """`RunTable.steps` -> what was spent by the end of each step. Raises NoAxisError."""


@dataclass(frozen=True)
class Axis:
    """One axis for all arms that can give it."""

    name: str
    label: str
    spent: dict[str, pd.Series]
    """Name of the run -> what it had spent by each step."""
    without: dict[str, str]
    """Name of an arm that is left out -> why."""
    filled: dict[str, str]
    """Steps without a number -> their substitute."""


def _summed(label: str, metric: str, unit: float = 1.0) -> AxisSource:
    """The sum of a metric over the steps, in units of so many."""

    def spent(steps: pd.DataFrame) -> pd.Series:
        amounts = column(steps, metric)
        if amounts.empty:
            raise NoAxisError(f"no {metric}")
        return _filled(amounts / unit, metric).cumsum()

    return AxisSource(label, spent)


def _filled(amounts: pd.Series, what: str) -> pd.Series:
    """From step 0 on, with a number between its neighbours' for a missing step. Raises NoAxisError:
    too many are missing, or the first ones.
    """
    # step 0 is the validation before training
    trained = amounts[amounts.index > 0]
    every = pd.RangeIndex(1, max(trained.index, default=0) + 1)
    missing = every.difference(trained.index)
    if len(missing) and (missing[0] == 1 or len(missing) > max(FEW, len(every) // 100)):
        which = f"{counted(len(missing), 'step')} from {missing[0]} to {missing[-1]}"
        raise NoAxisError(f"no {what} of {which}")
    return pd.concat([pd.Series({0: amounts.get(0, 0.0)}), trained.reindex(every).interpolate()])


def _of_log(steps: pd.DataFrame, name: str) -> pd.Series:
    """The sum of a number of the episode log, up to its last training step."""
    trained = column(steps, SESSIONS)
    if trained.empty:
        raise NoAxisError(
            "no episode log with training episodes; name the folder of the run's checkpoints"
        )
    first, last = trained.index[0], trained.index[-1]
    if first > 1:
        raise NoAxisError(f"its episode log begins with step {first}")
    amounts = column(steps, name)
    if not trained.index.isin(amounts.index).all():
        raise NoAxisError(
            "the policy writes its own feedback, and the episode log does not count those tokens"
        )
    # what was spent after the last logged step is not known
    there = steps.index[steps.index <= last].union([0])
    # a step with nothing but a validation spent nothing
    return amounts.reindex(there, fill_value=0.0).cumsum()


def _cost(steps: pd.DataFrame) -> pd.Series:
    costs = steps.filter(regex=_COST)
    if not len(costs.columns):
        raise NoAxisError("no rltf/feedback/judge/cost; it asks no judge, or has no metrics")
    logged = steps.loc[:, ~steps.columns.str.startswith(LOG)].dropna(how="all").index
    # A step without the metric: the judge was too busy to report; the next step reports both.
    spent = _filled(costs.loc[logged].sum(axis=1), "metrics").cumsum()
    if not spent.any():
        raise NoAxisError("the judge cost nothing; is rltf.feedback.price set?")
    return spent


SOURCES = {
    "step": [AxisSource("training step", lambda steps: steps.index.to_series().astype(float))],
    "rollouts": [
        _summed("training episodes", "rltf/session/total"),
        AxisSource("training episodes in the episode log", lambda steps: _of_log(steps, SESSIONS)),
    ],
    "tokens": [
        _summed("tokens generated in training episodes", "rltf/session/tokens/total"),
        AxisSource(
            "tokens of the attempts in the episode log", lambda steps: _of_log(steps, TOKENS)
        ),
        _summed("tokens trained on (prompts and responses)", "perf/total_num_tokens"),
    ],
    "hours": [_summed("hours of training steps, without validation", "timing_s/step", 3600.0)],
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
            spent = {run.name: source.spent(run.steps) for run in arm.runs}
        except NoAxisError as error:
            axis.without[arm.name] = str(error)
            continue
        axis.spent.update(spent)
        for run in arm.runs:
            filled = spent[run.name].index.difference(run.steps.index).difference([0])
            if len(filled):
                where = f"step {', '.join(map(str, filled))} of {run.name} in --x {name}"
                axis.filled[where] = "the run logged nothing there; its neighbours are taken"
    return axis
