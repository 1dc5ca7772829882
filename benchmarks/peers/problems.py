"""The race's problems, their exact grades as a reward, and what a teacher may read of them.

verl loads this file as its reward function (`compute_score`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from rltf_verl.data.build import build_parquet
from rltf_verl.data.schema import problem_from_row
from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.types import Problem

NUM_TRAIN, NUM_TEST = 2000, 100
FORMAT_COEF = 0.1
"""As `rltf.reward.format_coef`."""
ENV = BinaryMatrix(style="compact", n_min=3, n_max=3)
"""3x3 matrices, as lines of digits."""


class Files(NamedTuple):
    """One split each."""

    train: Path
    test: Path


def save(folder: Path, copies: bool = True) -> dict[str, Files]:
    """The demo's problems, each with its marks as a demonstration.

    Args:
        folder: gets a folder of files per way: `verl`'s are without the column that names our agent
            loop.
        copies: with the problems whose answer is the question.
    """
    built = build_parquet(
        "binary_matrix",
        folder / "built",
        seed=0,
        num_train=NUM_TRAIN,
        num_test=NUM_TEST,
        n_min=3,
        n_max=3,
        style="compact",
    )
    files = {}
    for way, dropped in (("ours", []), ("verl", ["agent_name"])):
        (folder / way).mkdir(exist_ok=True)
        for path in (built.train, built.test):
            table = _with_demonstrations(pq.read_table(path), copies)
            pq.write_table(table.drop_columns(dropped), folder / way / path.name)
        files[way] = Files(folder / way / built.train.name, folder / way / built.test.name)
    return files


def _with_demonstrations(table: pa.Table, copies: bool) -> pa.Table:
    rows = []
    for row in table.to_pylist():
        problem = problem_from_row(row["extra_info"], row["reward_model"])
        row["extra_info"]["demonstration"] = with_marks(problem).demonstration
        if copies or problem.data["matrix"] != problem.data["solution"]:
            rows.append(row)
    return pa.Table.from_pylist(rows)


def read(path: Path) -> list[Problem]:
    """The problems of a file."""
    rows = pq.read_table(path).to_pylist()
    return [problem_from_row(row["extra_info"], row["reward_model"]) for row in rows]


def score(problem: Problem, text: str) -> dict[str, float]:
    """`score` is the reward of this package's first turns, `acc` is 1 for a right answer."""
    grade = ENV.grade(problem, text)
    return {"score": grade.correct - FORMAT_COEF * (not grade.format_ok), "acc": +grade.correct}


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any]
) -> dict[str, float]:
    """The same, as verl calls it."""
    return score(problem_from_row(extra_info, {"ground_truth": ground_truth}), solution_str)


def scores(problems: Sequence[Problem], texts: Sequence[str]) -> list[dict[str, float]]:
    """Of one answer each."""
    return [score(problem, text) for problem, text in zip(problems, texts, strict=True)]


def with_marks(problem: Problem) -> Problem:
    """Its demonstration is what the verifier says to the right answer: each cell's digit."""
    right = f"\\boxed{{{problem.reference}}}"
    grade = ENV.grade(problem, right)
    return replace(problem, demonstration=ENV.explain(problem, right, grade, "full"))
