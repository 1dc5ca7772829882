"""Means and differences of a few runs, with the interval of Student and the exact sign test."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

Houses = dict[int, float]
"""House or seed -> a value of its run."""
T_95 = (math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365)
"""Student's t for 95 % on both sides; by degrees of freedom."""


def half_of(values: Sequence[float]) -> float:
    """Half of their mean's 95 % interval."""
    return T_95[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))


def mean_of(values: Sequence[float], *, sign: str = "") -> str:
    """`0.84 ± 0.05`: mean and half of its 95 % interval; the values where there are one or two, and
    where they are so far apart that the interval of a share leaves 0 to 1.
    """
    if len(values) < 3 or (not sign and len(values) < 5 and half_of(values) > 0.5):
        return ", ".join(f"{value:{sign}.2f}" for value in values)
    return f"{statistics.fmean(values):{sign}.2f} ± {half_of(values):.2f}"


def contrast(ours: Houses, theirs: Houses) -> str:
    """`+0.05 ± 0.04 (7 : 1, p 0.070)`: difference paired by house, houses on which ours is ahead
    and behind, and the exact sign test's p of both sides, where six houses differ.
    """
    apart = [round(ours[house] - theirs[house], 6) for house in ours.keys() & theirs]
    if len(apart) < 3 or ours == theirs:
        return ""
    ahead, behind = sum(value > 0 for value in apart), sum(value < 0 for value in apart)
    differing = ahead + behind
    tail = sum(math.comb(differing, k) for k in range(max(ahead, behind), differing + 1))
    p = f", p {min(1, 2 * tail / 2**differing):.3f}" if differing > 5 else ""
    return f"{mean_of(apart, sign='+')} ({ahead} : {behind}{p})"
