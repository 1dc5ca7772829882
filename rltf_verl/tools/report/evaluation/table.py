"""The numbers of an evaluation as ratios over its problems."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rltf_verl.runlog.numbers import Cases, EpisodeTable
from rltf_verl.runlog.turns import Record
from rltf_verl.tools.report.evaluation.bootstrap import Ratio, mean_over_problems, share

Ratios = dict[tuple[str, int], Ratio]
OF_TURNS = ("standing", "solved", "improvement", "format")
OF_ROUNDS = ("plasticity", "corrected", "spoiled")


def problem_key(record: Record) -> tuple[str, str, str]:
    """What makes two records episodes at one problem, also where a dataset holds it more than
    once.
    """
    return record["env"], record["question"], record["reference"]


def problem_numbers(records: Sequence[Record]) -> NDArray[np.int64]:
    """[S] the problem of each episode, 0..P−1."""
    number: dict[tuple[str, str, str], int] = {}
    return np.array([number.setdefault(problem_key(record), len(number)) for record in records])


def turn_ratios(table: EpisodeTable, problem: NDArray[np.int64]) -> Ratios:
    """(name, 0-based turn) -> mean over problems.

    Args:
        table: S episodes.
        problem: [S].
    """
    num = int(problem.max()) + 1
    return {
        (name, k): mean_over_problems(numbers[name].values, problem[numbers[name].episode], num)
        for k in range(table.num_turns)
        for numbers in [table.answers(k)]
        for name in OF_TURNS
    }


def round_ratios(table: EpisodeTable, problem: NDArray[np.int64]) -> Ratios:
    """(name, round) -> share of the round's revisions, those of all rounds as round 0; arguments as
    `turn_ratios`.
    """
    num = int(problem.max()) + 1
    return {
        (name, k): share(numbers[name].values, problem[numbers[name].episode], num)
        for k in range(table.num_turns)
        for numbers in [table.revisions(k or None)]
        for name in OF_ROUNDS
    }


def pass_ratios(first: Cases, problem: NDArray[np.int64]) -> Ratios:
    """("pass", k) -> the ratio of pass@k; k are the powers of 2 and the most samples of a problem.

    Args:
        first: verdicts of the first answers.
        problem: [S].
    """
    of, num_problems = problem[first.episode], int(problem.max()) + 1
    graded = np.bincount(of, minlength=num_problems)
    right = np.bincount(of, first.values, num_problems).astype(int)
    most = int(graded.max())
    powers = [2**i for i in range(most.bit_length()) if 2**i < most]
    return {("pass", k): _pass_ratio(graded, right, k) for k in [*powers, most] if k > 0}


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 − C(n−c, k) / C(n, k): unbiased for 1 − (1 − p)^k (Chen et al. 2021, arXiv 2107.03374).

    Args:
        n: samples, at least k.
        c: correct ones.
        k: samples that one may choose from.
    """
    return 1.0 if n - c < k else float(1.0 - np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def _pass_ratio(graded: NDArray[np.int64], right: NDArray[np.int64], k: int) -> Ratio:
    """Over the problems with at least k graded first answers."""
    enough = graded >= k
    values = [
        pass_at_k(int(n), int(c), k) if ok else 0.0
        for n, c, ok in zip(graded, right, enough, strict=True)
    ]
    return Ratio(np.array(values), enough.astype(np.float64))
