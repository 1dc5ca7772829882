"""What was bought on the way: verdicts, texts and right answers until first answers are half as far
above their start as the best arm's at its end. Each line of `results.jsonl` is a purchase.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

Line = Mapping[str, Any]
GOLD_A_STEP = 16
"""Right answers of another hand."""


class Point(NamedTuple):
    """A validation."""

    right: float
    """Share of the held-out first answers."""
    verdicts: float
    """Answers that were graded until then."""
    texts: float
    gold: float


Runs = Mapping[str, Sequence[list[Point]]]
"""Arm -> its runs."""


def of_dates(line: Line) -> list[Point]:
    """A run of study.py: of two turns but for GRPO, 32 first answers a step."""
    points, (arm, _, few) = line["curve"], line["arm"].partition(", ")
    if arm == "gold":
        most = int(few.partition(",")[0] or GOLD_A_STEP * points[-1]["step"])
        return [Point(p["accuracy"], 0, 0, min(GOLD_A_STEP * p["step"], most)) for p in points]
    seconds = [0 if arm == "grpo" else p["answers"] - 32 * p["step"] for p in points]
    return [Point(p["accuracy"], p["answers"], n, 0) for p, n in zip(points, seconds, strict=True)]


def of_sql(line: Line) -> list[Point]:
    """A run of recipes/sql: both kinds of held-out questions, as many of each."""
    texts = [0, *accumulate(line["texts"])]
    gold, single = line["arm"] == "gold queries", line["arm"] == "GRPO, one turn"
    return [
        Point(
            (p["seen"] + p["unseen"]) / 2,
            0 if gold else (48 if single else 32) * p["step"] + texts[p["step"]],
            texts[p["step"]],
            GOLD_A_STEP * p["step"] if gold else 0,
        )
        for p in line["curve"]
    ]


def reached(points: Sequence[Point], goal: float) -> Point | None:
    """The first place at which a run has the goal, on straight lines between validations; None: it
    never has.

    >>> reached([Point(0.0, 0, 0, 0), Point(0.8, 64, 32, 0)], 0.4)
    Point(right=0.4, verdicts=32.0, texts=16.0, gold=0.0)
    """
    for before, after in pairwise(points):
        if after.right >= goal:
            part = (goal - before.right) / (after.right - before.right)
            return Point(*(a + part * (b - a) for a, b in zip(before, after, strict=True)))
    return None


def halfway(runs: Runs) -> tuple[float, dict[str, list[Point]]]:
    """First answers right half of the way between the start and the best arm's end; arm -> those of
    its runs that got there.
    """
    starts = [run[0].right for of in runs.values() for run in of]
    best = max(statistics.fmean(run[-1].right for run in of) for of in runs.values())
    goal = (statistics.fmean(starts) + best) / 2
    there = {
        arm: [point for run in of if (point := reached(run, goal))] for arm, of in runs.items()
    }
    return goal, there


def rows(
    task: str, runs: Runs, interval: Callable[[Sequence[float]], str]
) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Cells of a table, (row, column) -> texts; a row names the task, half of the way, the arm.

    Args:
        task: its name.
        runs: of each arm.
        interval: text of the values of several runs.
    """
    goal, there = halfway(runs)
    for arm, points in there.items():
        row = f"{task}, {goal:.2f}: {arm}"
        yield (row, "runs that got there"), [f"{len(points)} of {len(runs[arm])}"]
        for kind in Point._fields[1:]:
            values = [float(getattr(point, kind)) for point in points]
            yield (row, kind), [interval(values) if any(values) else ""]
