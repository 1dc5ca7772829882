"""Curves of seeds, their mean, and the numbers of a comparison: at start, highest, at the end, and
where all arms had spent the same. Nothing is interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from rltf_verl.tools.report.compare.axes import Axis
from rltf_verl.tools.report.compare.run import Arm, Quantity, Series


@dataclass(frozen=True)
class Point:
    """An evaluation of one seed."""

    step: int
    x: float
    """What the seed had spent by then."""
    y: float


Seed = Sequence[Point]
"""By step; at least one."""


@dataclass(frozen=True)
class MeanPoint:
    """The seeds at one step."""

    step: int
    x: float
    """Mean of what they had spent."""
    mean: float
    low: float
    """The lowest seed."""
    high: float
    """The highest."""


@dataclass(frozen=True)
class SeedSpread:
    """A number of each seed."""

    mean: float
    low: float
    high: float
    std: float | None
    """Sample standard deviation (n − 1); None for one seed."""
    seeds: tuple[float, ...]
    """In the order of the runs."""


@dataclass(frozen=True)
class Whole:
    """An arm over its whole length, whatever it spent."""

    arm: str
    runs: tuple[str, ...]
    start: SeedSpread
    """First evaluation."""
    highest: SeedSpread
    """Highest evaluation of each seed: the more evaluations, the higher by chance alone."""
    end: SeedSpread
    """Last evaluation."""
    first_steps: tuple[int, ...]
    """Step of the first evaluation of each seed."""
    last_steps: tuple[int, ...]
    """Step of the last evaluation of each seed."""


@dataclass(frozen=True)
class AtBudget:
    """An arm where all arms had spent the same."""

    value: SeedSpread
    """Last evaluation within the budget."""
    spent: tuple[float, ...]
    """What each seed had spent by that evaluation."""
    difference: float | None
    """Its mean minus that of the first arm; None for that one."""
    apart: bool | None
    """Whether the ranges of the seeds do not touch those of the first arm; None with one seed on
    either side.
    """


@dataclass(frozen=True)
class ArmCurve:
    """An arm on one axis."""

    arm: str
    place: int
    """Among all arms of the comparison: it looks the same in every picture."""
    seeds: tuple[Seed, ...]
    mean: tuple[MeanPoint, ...]
    at_budget: AtBudget | None
    """None if a seed has no evaluation within the budget."""


@dataclass(frozen=True)
class Panel:
    """One quantity against one axis: a picture."""

    quantity: str
    label: str
    axis: str
    axis_label: str
    budget: float
    """The largest amount that every seed of every arm had spent at its last evaluation."""
    arms: tuple[ArmCurve, ...]
    without: dict[str, str]
    """Arm that is left out -> why."""


def points(spent: Series, values: Series) -> list[Point]:
    """The evaluations at whose step it is known what had been spent."""
    return [Point(step, spent[step], values[step]) for step in sorted(values) if step in spent]


def mean_curve(seeds: Sequence[Seed]) -> list[MeanPoint]:
    """At the steps at which every seed was evaluated."""
    curve = []
    shared = set.intersection(*({point.step for point in seed} for seed in seeds))
    for step in sorted(shared):
        here = [point for seed in seeds for point in seed if point.step == step]
        x, ys = fmean(point.x for point in here), [point.y for point in here]
        curve.append(MeanPoint(step, x, fmean(ys), min(ys), max(ys)))
    return curve


def last_within(seed: Seed, budget: float) -> Point | None:
    """The last evaluation for which no more than the budget was spent."""
    within = [point for point in seed if point.x <= budget * (1 + 1e-9)]
    return within[-1] if within else None


def spread(values: Sequence[float]) -> SeedSpread:
    """The spread over one seed or more."""
    return SeedSpread(
        fmean(values),
        min(values),
        max(values),
        stdev(values) if len(values) > 1 else None,
        tuple(values),
    )


def whole(quantity: Quantity, arm: Arm) -> Whole:
    """An arm over its whole length."""
    series = [quantity.of[run.name] for run in arm.runs]
    return Whole(
        arm=arm.name,
        runs=tuple(run.name for run in arm.runs),
        start=spread([of[min(of)] for of in series]),
        highest=spread([max(of.values()) for of in series]),
        end=spread([of[max(of)] for of in series]),
        first_steps=tuple(min(of) for of in series),
        last_steps=tuple(max(of) for of in series),
    )


def panel(quantity: Quantity, axis: Axis, arms: Sequence[Arm]) -> Panel | str:
    """The quantity against the axis, or why there is nothing to draw."""
    seeds: dict[str, list[Seed]] = {}
    without = dict(axis.without)
    for arm in (arm for arm in arms if arm.name not in without):
        evaluations = [points(axis.of[run.name], quantity.of[run.name]) for run in arm.runs]
        if all(evaluations):
            seeds[arm.name] = list(evaluations)
        else:
            without[arm.name] = "what was spent is not known at any evaluation"
    if not seeds:
        return "; ".join(dict.fromkeys(without.values()))
    budget = min(seed[-1].x for of in seeds.values() for seed in of)
    baseline = next(iter(seeds.values()))
    curves = []
    for place, arm in enumerate(arms):
        if arm.name in seeds:
            of = seeds[arm.name]
            at_budget = _at(of, budget, None if of is baseline else baseline)
            curves.append(
                ArmCurve(
                    arm=arm.name,
                    place=place,
                    seeds=tuple(of),
                    mean=tuple(mean_curve(of)),
                    at_budget=at_budget,
                )
            )
    return Panel(
        quantity=quantity.name,
        label=quantity.label,
        axis=axis.name,
        axis_label=axis.label,
        budget=budget,
        arms=tuple(curves),
        without=without,
    )


def _at(seeds: Sequence[Seed], budget: float, baseline: Sequence[Seed] | None) -> AtBudget | None:
    last = [last_within(seed, budget) for seed in seeds]
    reached = [point for point in last if point is not None]
    if len(reached) < len(last):
        return None
    value, spent = spread([point.y for point in reached]), tuple(point.x for point in reached)
    before = _at(baseline, budget, None) if baseline is not None else None
    if before is None:
        return AtBudget(value, spent, difference=None, apart=None)
    difference = value.mean - before.value.mean
    return AtBudget(value, spent, difference, _apart(value, before.value))


def _apart(a: SeedSpread, b: SeedSpread) -> bool | None:
    if a.std is None or b.std is None:
        return None
    return a.low > b.high or b.low > a.high
