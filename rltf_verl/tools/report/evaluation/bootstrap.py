"""Means and shares with confidence intervals, by resampling problems.

The episodes of one problem resemble each other, so the problem is what is drawn: intervals over
episodes would be too narrow by up to the square root of the episodes per problem.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
RESAMPLES, CHUNK, LEVEL = 2000, 100, 0.95


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval; None where there is nothing to take it of (interval: fewer
    than two problems).
    """

    value: float | None
    low: float | None
    high: float | None
    problems: int
    """Problems that it rests on."""


@dataclass(frozen=True)
class Ratio:
    """Σ over / Σ under over P problems ([P] each). A mean over problems has its values over
    ones.
    """

    over: Array
    under: Array


def mean_over_problems(values: Array, problem: NDArray[np.int64], num_problems: int) -> Ratio:
    """Every problem counts the same, however many cases it has; first the mean of its own.

    Args:
        values: [C].
        problem: [C], the problem of each case.
        num_problems: P.
    """
    total = np.bincount(problem, values, num_problems).astype(np.float64)
    number = np.bincount(problem, minlength=num_problems).astype(np.float64)
    return Ratio(total / np.maximum(number, 1.0), np.minimum(number, 1.0))


def share(values: Array, problem: NDArray[np.int64], num_problems: int) -> Ratio:
    """The share of all cases ([C], with the problem of each): problems with more cases count
    more.
    """
    over = np.bincount(problem, values, num_problems).astype(np.float64)
    return Ratio(over, np.bincount(problem, minlength=num_problems).astype(np.float64))


def estimates(ratios: list[Ratio], seed: int) -> list[Estimate]:
    """Values and percentile intervals. All ratios ([P] each, the same problems) see the same
    resamples.
    """
    over, under = (
        np.stack([getattr(r, part) for r in ratios], axis=1) for part in ("over", "under")
    )
    drawn = _resampled(over, under, np.random.default_rng(seed))
    return [
        _estimate(float(o.sum()), u, d) for o, u, d in zip(over.T, under.T, drawn.T, strict=True)
    ]


def _resampled(over: Array, under: Array, rng: np.random.Generator) -> Array:
    """[RESAMPLES, metrics]; NaN where a resample has nothing to take the ratio of."""
    num_problems = len(over)
    parts = []
    for _ in range(0, RESAMPLES, CHUNK):
        times = rng.multinomial(
            num_problems, np.full(num_problems, 1 / num_problems), CHUNK
        ).astype(np.float64)
        with np.errstate(invalid="ignore"):  # 0 / 0
            parts.append((times @ over) / (times @ under))
    return np.concatenate(parts)


def _estimate(over: float, under: Array, drawn: Array) -> Estimate:
    problems = int((under > 0).sum())
    if problems == 0:
        return Estimate(None, None, None, 0)
    value = over / float(under.sum())
    if problems == 1:
        return Estimate(value, None, None, 1)
    low, high = np.nanquantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high), problems)
