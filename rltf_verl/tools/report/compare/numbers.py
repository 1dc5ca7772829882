"""Curves of seeds, their mean, and where all arms had spent the same. Nothing is interpolated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from rltf_verl.tools.report.compare.axes import Axis
from rltf_verl.tools.report.compare.run import Arm, Quantity


@dataclass(frozen=True)
class Panel:
    """One quantity against one axis: a picture."""

    quantity: str
    label: str
    axis: str
    axis_label: str
    points: pd.DataFrame
    """An evaluation of one run per line, by arm, run and step: `arm`, `place` (of the arm among all
    arms: it looks the same in every picture), `run`, `step`, `x` (spent by then), `y`.
    """
    without: dict[str, str]
    """Arm that is left out -> why."""

    @property
    def budget(self) -> float:
        """The largest amount that every seed of every arm had spent at its last evaluation."""
        return float(self.points.groupby("run")["x"].last().min())


@dataclass(frozen=True)
class BudgetPoint:
    """An arm where all arms had spent the same."""

    value: pd.Series
    """Each seed's last evaluation within the budget."""
    spent: pd.Series
    """Each seed's spending by that evaluation."""
    difference: float | None
    """Its mean minus that of the first arm; None for that one."""
    apart: bool | None
    """True if the ranges of the seeds do not touch those of the first arm; None with one seed on
    either side.
    """


def evaluations(quantity: Quantity, arms: Sequence[Arm]) -> pd.DataFrame:
    """`Panel.points` of all runs, without `x`."""
    parts = []
    for place, arm in enumerate(arms):
        for run in arm.runs:
            y = quantity.of[run.name].rename("y").rename_axis("step").reset_index()
            parts.append(y.assign(arm=arm.name, place=place, run=run.name))
    return pd.concat(parts, ignore_index=True)


def panel(quantity: Quantity, axis: Axis, arms: Sequence[Arm]) -> Panel | str:
    """The quantity against the axis, or why there is nothing to draw."""
    without = dict(axis.without)
    points = evaluations(quantity, [arm for arm in arms if arm.name not in without])
    points["place"] = points["arm"].map({arm.name: place for place, arm in enumerate(arms)})
    places = zip(points["run"], points["step"], strict=True)
    points["x"] = [axis.spent[run].get(step) for run, step in places]
    known = points.dropna()
    # an arm goes as a whole: fewer seeds would be another arm
    lost = points[~points["run"].isin(known["run"])]["arm"].unique()
    without |= dict.fromkeys(lost, "what was spent is not known at any evaluation")
    known = known[~known["arm"].isin(lost)]
    if known.empty:
        return "; ".join(dict.fromkeys(without.values()))
    return Panel(quantity.name, quantity.label, axis.name, axis.label, known, without)


def mean_curve(points: pd.DataFrame) -> pd.DataFrame:
    """`x`, `mean`, `low` and `high` of an arm's points at the steps at which every seed was
    evaluated.
    """
    by_step = points.groupby("step")
    curve = by_step.agg(x=("x", "mean"), mean=("y", "mean"), low=("y", "min"), high=("y", "max"))
    return curve[by_step.size() == points["run"].nunique()]


def at_budget(panel: Panel) -> dict[str, BudgetPoint | None]:
    """Arm -> its point; None if a seed has no evaluation within the budget."""
    # sums of floats: two runs that spent the same may differ in the last digit
    within = panel.points[panel.points["x"] <= panel.budget * (1 + 1e-9)]
    reached: dict[str, BudgetPoint | None] = {}
    first: pd.Series | None = None
    for arm, points in panel.points.groupby("arm", sort=False):
        last = within[within["arm"] == arm].groupby("run", sort=False).last()
        value, difference, apart = last["y"], None, None
        if first is not None:
            difference = float(value.mean() - first.mean())
            if min(len(value), len(first)) > 1:
                apart = bool(value.min() > first.max() or value.max() < first.min())
        is_there = len(value) == points["run"].nunique()
        reached[arm] = BudgetPoint(value, last["x"], difference, apart) if is_there else None
        first = value if first is None and is_there else first
    return reached
