"""The race's problems, their exact grades as a reward, and what a teacher may read of them.

verl loads this file as its reward function (`compute_score`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peers.tasks import TASKS, Task
from rltf_verl.data.schema import problem_from_row
from rltf_verl.envs.base import Env
from rltf_verl.tools.data.build import build_parquet
from rltf_verl.types import Problem

FORMAT_COEF = 0.1
"""As `rltf.reward.format_coef`."""


class Files(NamedTuple):
    """One split each."""

    train: Path
    test: Path


def save(folder: Path, task: Task) -> dict[str, Files]:
    """A task's problems, each with what a teacher reads as a demonstration.

    Args:
        folder: gets a folder of files per way: `verl`'s are without the column that names our agent
            loop.
        task: whose.
    """
    built = build_parquet(task.env, folder / "built", task.seed, 512, 8, **task.options)
    files = {}
    for way, dropped in (("ours", []), ("verl", ["agent_name"])):
        (folder / way).mkdir(exist_ok=True)
        for path in (built.train, built.test):
            table = _with_demonstrations(pq.read_table(path), task)
            pq.write_table(table.drop_columns(dropped), folder / way / path.name)
        files[way] = Files(folder / way / built.train.name, folder / way / built.test.name)
    return files


def _with_demonstrations(table: pa.Table, task: Task) -> pa.Table:
    rows, env = [], task.make_env()
    for row in table.to_pylist():
        problem = problem_from_row(row["extra_info"], row["reward_model"])
        row["extra_info"]["demonstration"] = demonstration(env, problem)
        rows.append(row)
    return pa.Table.from_pylist(rows)


def read(path: Path) -> list[Problem]:
    """The problems of a file."""
    rows = pq.read_table(path).to_pylist()
    return [problem_from_row(row["extra_info"], row["reward_model"]) for row in rows]


@cache
def _env_of(name: str) -> Env:
    (env,) = (t.make_env() for t in TASKS.values() if t.make_env().name == name)
    return env


def score(problem: Problem, text: str) -> dict[str, float]:
    """`score` is the reward of this package's first turns, `acc` is 1 for a right answer."""
    grade = _env_of(problem.env).grade(problem, text)
    return {"score": grade.correct - FORMAT_COEF * (not grade.format_ok), "acc": +grade.correct}


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Mapping[str, Any]
) -> dict[str, float]:
    """The same, as verl calls it."""
    return score(problem_from_row(extra_info, {"ground_truth": ground_truth}), solution_str)


def scores(problems: Sequence[Problem], texts: Sequence[str]) -> list[dict[str, float]]:
    """Of one answer each."""
    return [score(problem, text) for problem, text in zip(problems, texts, strict=True)]


def demonstration(env: Env, problem: Problem) -> str:
    """What the verifier says to the right answer of a puzzle (each cell's digit), or to no answer
    of another problem (an example of the house's rule).
    """
    text, level = ("", "hint")
    if env.name == "binary_matrix":
        text, level = f"\\boxed{{{problem.reference}}}", "full"
    return env.explain(problem, text, env.grade(problem, text), level)
