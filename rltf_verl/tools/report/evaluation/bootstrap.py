"""Means and shares with confidence intervals, by resampling problems.

The episodes of one problem resemble each other, so the problem is what is drawn: intervals over
episodes would be too narrow by up to the square root of the episodes per problem.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rltf_verl.runlog.numbers import Cases, Floats, Integers
from rltf_verl.runlog.turns import Record

RESAMPLES, CHUNK, LEVEL = 2000, 100, 0.95
Name = TypeVar("Name")


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval; None without a case (interval: fewer than two problems)."""

    value: float | None
    low: float | None
    high: float | None
    problems: int
    """Problems that it rests on."""
    cases: int = 0
    """Cases of those problems."""


@dataclass(frozen=True)
class Ratio:
    """Σ over / Σ under over P problems ([P] each). A mean over problems has its values over
    ones.
    """

    over: Floats
    under: Floats
    cases: int = 0
    least: float = 0.0
    """See `Cases`."""


def problem_key(record: Record) -> tuple[str, str, str, str]:
    """Key of a record's problem, equal where a dataset holds the problem more than once.
    Conversations whose last message is the same differ in the messages before.
    """
    return record["env"], repr(record.get("context")), record["question"], record["reference"]


def numbered(keys: Iterable[Hashable]) -> Integers:
    """[S] equal keys have equal numbers, 0..P−1, whatever the order of the keys."""
    keys = list(keys)
    number = {key: k for k, key in enumerate(sorted(set(keys), key=repr))}
    return np.array([number[key] for key in keys])


def mean_over_problems(cases: Cases, problem: Integers) -> Ratio:
    """Every problem counts the same, however many cases it has; first the mean of its own.

    Args:
        cases: C of S episodes.
        problem: [S], the problem of each episode, 0..P−1.
    """
    pooled = share_of_cases(cases, problem)
    # a problem without a case is no problem of the mean, and 0 / 1 in between
    ones = np.minimum(pooled.under, 1.0)
    over = pooled.over / np.maximum(pooled.under, 1.0)
    return Ratio(over, ones, pooled.cases, pooled.least)


def share_of_cases(cases: Cases, problem: Integers) -> Ratio:
    """All cases together: problems with more cases count more. Arguments as
    `mean_over_problems`.
    """
    # a case counts for the problem of its episode
    of, num_problems = problem[cases.episode], int(problem.max()) + 1
    total = np.bincount(of, cases.values, num_problems).astype(np.float64)
    num = np.bincount(of, minlength=num_problems).astype(np.float64)
    return Ratio(total, num, len(of), cases.least)


def estimates(ratios: Mapping[Name, Ratio]) -> dict[Name, Estimate]:
    """Values and percentile intervals, wider where all P problems agree. All ratios ([P] each, the
    same problems) see the same resamples, in every call.
    """
    if not ratios:
        return {}
    # [P, metrics]
    over = np.stack([ratio.over for ratio in ratios.values()], axis=1)
    under = np.stack([ratio.under for ratio in ratios.values()], axis=1)
    drawn = _resampled(over, under, np.random.default_rng(0))
    return {name: _estimate(ratio, drawn[:, k]) for k, (name, ratio) in enumerate(ratios.items())}


def _resampled(over: Floats, under: Floats, rng: np.random.Generator) -> Floats:
    """[RESAMPLES, metrics]; NaN where a resample has nothing to take the ratio of."""
    num_problems = len(over)
    evenly: NDArray[np.float64] = np.full(num_problems, 1 / num_problems)
    parts = []
    for _ in range(0, RESAMPLES, CHUNK):
        # how often each problem is drawn; in chunks, because [RESAMPLES, P] may be gigabytes
        times = rng.multinomial(num_problems, evenly, CHUNK).astype(np.float64)
        with np.errstate(invalid="ignore"):  # 0 / 0
            # [CHUNK, P] @ [P, metrics]
            parts.append((times @ over) / (times @ under))
    return np.concatenate(parts)


def _estimate(ratio: Ratio, drawn: Floats) -> Estimate:
    problems = int((ratio.under > 0).sum())
    if problems == 0:
        return Estimate(None, None, None, 0)
    value = float(ratio.over.sum() / ratio.under.sum())
    if problems == 1:
        return Estimate(value, None, None, 1, ratio.cases)
    # a resample may hold none of the few problems that have a case
    low, high = np.nanquantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    if np.isclose(low, high) and ratio.least <= value <= 1:  # a share; nats have no bounds
        # A part `unseen` of all problems could be otherwise: none of P would show it once in 20.
        unseen = 1 - (1 - LEVEL) ** (1 / problems)
        low, high = value - unseen * (value - ratio.least), value + unseen * (1 - value)
    return Estimate(value, float(low), float(high), problems, ratio.cases)
