"""The sessions of an evaluation as arrays, and the ratios that its numbers are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rltf_verl.report.evaluation.bootstrap import Array, Ratio, mean_over_problems, share
from rltf_verl.runlog.turns import Record, answer, format_ok, graded, right


def problem_of(record: Record) -> tuple[str, str, str]:
    """What makes two records sessions at one problem, also where a dataset holds it more than
    once.
    """
    return record["env"], record["question"], record["reference"]


@dataclass(frozen=True)
class Pairs:
    """C answers that followed another: round (from 1), problem, verdicts, and whether the answers
    differ ([C]).
    """

    round: NDArray[np.int64]
    problem: NDArray[np.int64]
    before: NDArray[np.bool_]
    after: NDArray[np.bool_]
    changed: NDArray[np.bool_]


@dataclass(frozen=True)
class SessionTable:
    """S sessions of P problems over H turns. Verdicts are 1 or 0, NaN where there is none."""

    problem: NDArray[np.int64]
    """[S]"""
    stands: Array
    """[S, H], is the answer that stands after this turn right?"""
    so_far: Array
    """[S, H], was any? NaN where none of the known ones was, and some are not known."""
    format: Array
    """[S, H], NaN where the turn was not played."""
    pairs: Pairs

    @classmethod
    def of(cls, records: Sequence[Record]) -> SessionTable:
        """From records that play one line of turns each, at least one."""
        number: dict[tuple[str, str, str], int] = {}
        problem = np.array(
            [number.setdefault(problem_of(record), len(number)) for record in records]
        )
        horizon = max(len(record["turns"]) for record in records)
        stands = np.array([_stands(record["turns"], horizon) for record in records])
        return cls(
            problem=problem,
            stands=stands,
            so_far=_so_far(stands),
            format=np.array([_formats(record["turns"], horizon) for record in records]),
            pairs=_pairs(records, problem),
        )

    @property
    def num_problems(self) -> int:
        """P."""
        return int(self.problem.max()) + 1

    def _mean(self, values: Array) -> Ratio:
        return mean_over_problems(values, self.problem, self.num_problems)

    def turn_ratios(self) -> dict[tuple[str, int], Ratio]:
        """(name of a field of `TurnResult`, 0-based turn) -> its ratio."""
        ratios = {}
        for k in range(self.stands.shape[1]):
            ratios["accuracy", k] = self._mean(self.stands[:, k])
            ratios["cumulative", k] = self._mean(self.so_far[:, k])
            ratios["gain", k] = self._mean(self.stands[:, k] - self.stands[:, 0])
            ratios["format", k] = self._mean(self.format[:, k])
        return ratios

    def rounds(self) -> list[int]:
        """0 (all together), then each."""
        return [0, *sorted({int(k) for k in self.pairs.round})] if len(self.pairs.round) else []

    def round_ratios(self) -> dict[tuple[str, int], Ratio]:
        """(name of a field of `RoundResult`, round) -> its ratio."""
        ratios, pairs = {}, self.pairs
        for k in self.rounds():
            here = (pairs.round == k) | (k == 0)
            for name, hits, of in (
                ("plasticity", pairs.changed, here),
                ("corrected", pairs.after, here & ~pairs.before),
                ("spoiled", ~pairs.after, here & pairs.before),
            ):
                ratios[name, k] = share(hits[of], pairs.problem[of], self.num_problems)
        return ratios

    def pass_ratios(self) -> dict[tuple[str, int], Ratio]:
        """("pass", k) -> the ratio of pass@k; k are the powers of 2 and the most samples of a
        problem.
        """
        first = self.stands[:, 0]
        graded = np.bincount(self.problem, ~np.isnan(first), self.num_problems).astype(int)
        right = np.bincount(self.problem, np.nan_to_num(first), self.num_problems).astype(int)
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


def _so_far(verdicts: Array) -> Array:
    any_right = np.maximum.accumulate(np.nan_to_num(verdicts), axis=1)
    return np.where(any_right > 0, any_right, np.maximum.accumulate(verdicts, axis=1))


def _verdict(turn: Record) -> float:
    return float(right(turn)) if graded(turn) else float("nan")


def _stands(turns: Sequence[Record], horizon: int) -> list[float]:
    verdicts = [_verdict(turn) for turn in turns]
    return verdicts + [verdicts[-1]] * (horizon - len(verdicts))


def _formats(turns: Sequence[Record], horizon: int) -> list[float]:
    formats = [float(format_ok(turn)) if graded(turn) else float("nan") for turn in turns]
    return formats + [float("nan")] * (horizon - len(turns))


def _pairs(records: Sequence[Record], problem: NDArray[np.int64]) -> Pairs:
    cases = [
        (
            k,
            p,
            before["grade"]["correct"],
            after["grade"]["correct"],
            answer(before) != answer(after),
        )
        for record, p in zip(records, problem, strict=True)
        for k, (before, after) in enumerate(pairwise(record["turns"]), start=1)
        if graded(after)
    ]
    rounds, problems, before, after, changed = zip(*cases, strict=True) if cases else [()] * 5
    return Pairs(
        np.array(rounds, dtype=np.int64),
        np.array(problems, dtype=np.int64),
        np.array(before, dtype=np.bool_),
        np.array(after, dtype=np.bool_),
        np.array(changed, dtype=np.bool_),
    )
