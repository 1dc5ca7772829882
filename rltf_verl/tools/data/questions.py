"""A dataset's rows as episodes ask them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rltf_verl.data.schema import FIX, check_parquet, first_prompt, problem_of
from rltf_verl.envs.base import Env
from rltf_verl.types import Message, Problem


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """One row."""

    problem: Problem
    messages: tuple[Message, ...]
    """The first prompt."""
    source: str = ""
    """`data_source`, by which verl keeps metrics apart."""
    split: str = ""


def read_questions(
    path: str | Path, num: int | None = None, env: Env | None = None
) -> list[QuestionRow]:
    """The first `num` rows of a file, in order; None is all of them.

    Args:
        path: a file of ours, or with `env` one in verl's form that it takes (`Env.data_of`).
        num: rows.
        env: grades them.

    Raises:
        ValueError: not a file of ours, or a bad row; names it.
        FileNotFoundError: no such file.
    """
    check_parquet(path, env)
    table = pq.read_table(path, columns=["data_source", "prompt", "extra_info", "reward_model"])
    return [
        _question(row, f"{path}, row {i}", env)
        for i, row in enumerate(table.slice(0, num).to_pylist())
    ]


def require_rows_of(env: Env, questions: Sequence[QuestionRow]) -> None:
    """Raise ValueError for a row that was made for another environment."""
    for question in questions:
        if question.problem.env != env.name:
            raise ValueError(
                f"env.name={env.name}: row {question.problem.index} was made for the environment"
                f" {question.problem.env} (extra_info.env): leave env.name out, or name a file of"
                f" {env.name}"
            )


def _question(row: dict[str, Any], where: str, env: Env | None) -> QuestionRow:
    try:
        problem = problem_of(env, row)
        messages = tuple(first_prompt(row))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    if not messages:
        raise ValueError(f"{where}: the prompt is empty; {FIX}")
    split = (row["extra_info"] or {}).get("split") or ""
    return QuestionRow(problem, messages, str(row["data_source"]), split)
