"""The first rows of a dataset, and what the environment would say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rltf_verl.data.made_for import AS_IT_IS, made_for, make, takes_rows_of
from rltf_verl.data.schema import check_parquet, problem_from_row, problem_of, read_provenance
from rltf_verl.envs.base import LEVELS, Env

Shown = dict[str, Any]


def first_problems(
    path: str | Path,
    num: int,
    attempt: str | None,
    env: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], list[Shown]]:
    """Provenance, and of the first `num` rows question, reference, place and, for an attempt, the
    feedback by level.

    Args:
        path: dataset of ours, or in verl's form.
        num: rows.
        attempt: what the environment speaks of; None asks it nothing.
        env: the environment; None is the one that the file names, and `reward_function` for a file
            in verl's form.
        options: of the environment, over those that the file names.

    Raises:
        ValueError: not such a file, or its environment cannot be made.
    """
    told = takes_rows_of(path, env or AS_IT_IS, options or {})
    check_parquet(path, told)
    with pq.ParquetFile(path) as file:
        batch = next(file.iter_batches(batch_size=max(num, 1)))
    envs: dict[str, Env] = {}
    shown = []
    for row in batch.to_pylist()[:num]:
        problem = (
            problem_of(told, row)
            if told is not None
            else problem_from_row(row["extra_info"], row["reward_model"])
        )
        said: dict[str, str] = {}
        if attempt is not None:
            if problem.env not in envs:
                named = made_for(path, problem.env)
                named = named if env is None else named.at(env)
                named = replace(named, options={**named.options, **(options or {})})
                envs[problem.env] = make(path, named, "--env ")
            own = envs[problem.env]
            grade = own.grade(problem, attempt)
            said = {level: own.explain(problem, attempt, grade, level) for level in LEVELS}
        shown.append(
            {
                "where": " ".join(
                    [
                        row["data_source"],
                        (row["extra_info"] or {}).get("split") or "",
                        str(problem.index),
                    ]
                ),
                "prompt": row["prompt"],
                "reference": problem.reference,
                "attempt": attempt,
                "feedback": said,
            }
        )
    return read_provenance(path), shown
