"""Curves of seeds, their mean, and what a seed had reached within a budget. Nothing is
interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from rltf_verl.tools.report.compare.run import Series


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
    num: int
    """Seeds in it."""


def points(spent: Series, values: Series) -> list[Point]:
    """The evaluations at whose step it is known what had been spent."""
    return [Point(step, spent[step], values[step]) for step in sorted(values) if step in spent]


def mean_curve(seeds: Sequence[Seed]) -> list[MeanPoint]:
    """At the steps at which every seed that has not ended by then was evaluated.

    A seed counts until its last evaluation, so one that ended early is neither carried on nor is it
    guessed; from there on `num` is smaller. A step at which a seed in between was not evaluated is
    left out.
    """
    at = [{point.step: point for point in seed} for seed in seeds]
    found = []
    for step in sorted({step for of in at for step in of}):
        here = [of.get(step) for of in at if max(of) >= step]
        there = [point for point in here if point is not None]
        if len(there) == len(here):
            ys = [point.y for point in there]
            found.append(
                MeanPoint(step, fmean(p.x for p in there), fmean(ys), min(ys), max(ys), len(ys))
            )
    return found


def last_within(seed: Seed, budget: float) -> Point | None:
    """The last evaluation for which no more than the budget was spent."""
    within = [point for point in seed if point.x <= budget * (1 + 1e-9)]
    return within[-1] if within else None


def mean_until(seed: Seed, start: float, budget: float) -> float | None:
    """Area under the curve from start to budget over its width; each evaluation counts until the
    next one.

    None if nothing lies between, or the seed's first evaluation is later than the start.
    """
    first = last_within(seed, start)
    if first is None or budget <= start:
        return None
    later = [point for point in seed if start < point.x < budget]
    levels = [first.y, *(point.y for point in later)]
    edges = [start, *(point.x for point in later), budget]
    return sum(y * (b - a) for y, (a, b) in zip(levels, pairwise(edges), strict=True)) / (
        budget - start
    )
