"""The first rows of a dataset, and what the environment would say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rltf_verl.data.schema import check_parquet, problem_from_row, read_provenance
from rltf_verl.envs import make_env
from rltf_verl.envs.base import LEVELS, Env
from rltf_verl.types import Problem

Shown = dict[str, Any]


def first_problems(
    path: str | Path, num: int, attempt: str | None
) -> tuple[dict[str, Any], list[Shown]]:
    """Provenance, and of the first `num` rows question, reference, place and, for an attempt, the
    feedback by level.

    Raises:
        ValueError: not a file of ours, or its environment cannot be made.
    """
    check_parquet(path)
    provenance = read_provenance(path)
    with pq.ParquetFile(path) as file:
        batch = next(file.iter_batches(batch_size=max(num, 1)))
    envs: dict[str, Env] = {}
    shown = []
    for row in batch.to_pylist()[:num]:
        problem = problem_from_row(row["extra_info"], row["reward_model"])
        said = (
            {}
            if attempt is None
            else _feedback(_env_of(problem, provenance, envs), problem, attempt)
        )
        shown.append(
            {
                "where": (
                    f"{row['data_source']} {row['extra_info'].get('split') or ''} {problem.index}"
                ),
                "prompt": row["prompt"],
                "reference": problem.reference,
                "attempt": attempt,
                "feedback": said,
            }
        )
    return provenance, shown


def _env_of(problem: Problem, provenance: dict[str, Any], made: dict[str, Env]) -> Env:
    """With the options that the dataset was built with, if it is known to be that environment."""
    if problem.env not in made:
        ours = provenance.get("env") == problem.env
        made[problem.env] = make_env(problem.env, **(provenance["options"] if ours else {}))
    return made[problem.env]


def _feedback(env: Env, problem: Problem, attempt: str) -> dict[str, str]:
    grade = env.grade(problem, attempt)
    return {level: env.explain(problem, attempt, grade, level) for level in LEVELS}
