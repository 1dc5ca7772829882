"""Groups of first answers, at another number of episodes than was played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import comb

from rltf_verl.runlog.turns import Record

PLACES = 6
"""Decimals to which rewards are equal, as the trainer's metric `rltf/group/dead_share` has it."""


def group_of(record: Record) -> tuple[str, str]:
    """What makes two records episodes of one group: the step, and the row or its visit."""
    return str(record["step"]), str(record["uid"])


def chance_all_equal(values: Sequence[float], num: int) -> float:
    """Probability that `num` of the values, drawn without return, are equal: Σ_v C(c_v, num) / C(m,
    num).

    That is unbiased for a group of `num` episodes, whatever number m ≥ num was played.

    Example:
        >>> chance_all_equal([0, 0, 0, 1], 4), chance_all_equal([0, 0, 0, 1], 2)
        (0.0, 0.5)
    """
    counts = Counter(round(value, PLACES) for value in values)
    return sum(comb(count, num) for count in counts.values()) / comb(len(values), num)
