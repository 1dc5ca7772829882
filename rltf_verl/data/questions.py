"""A dataset's rows as episodes ask them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltf_verl.data.schema import FIX, check_parquet, first_prompt, first_rows, problem_of
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


def question_of(env: Env | None, row: Mapping[str, Any]) -> QuestionRow:
    """A row of a file, or of verl's dataset. Raises ValueError if it cannot be asked."""
    problem, messages = problem_of(env, row), tuple(first_prompt(row))
    if not messages:
        raise ValueError(f"the prompt is empty; {FIX}")
    split = (row.get("extra_info") or {}).get("split") or ""
    return QuestionRow(problem, messages, str(row.get("data_source")), split)


def first_questions(path: str | Path, num: int | None, env: Env | None) -> list[QuestionRow]:
    """The first `num` rows of a checked file, or all. Raises ValueError for a bad one; names it."""
    rows = enumerate(first_rows(path, num))
    return [_named_question(row, f"{path}, row {i}", env) for i, row in rows]


def _named_question(row: Mapping[str, Any], where: str, env: Env | None) -> QuestionRow:
    try:
        return question_of(env, row)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


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
    return first_questions(path, num, env)


def require_rows_of(env: Env, questions: Sequence[QuestionRow]) -> None:
    """Raise ValueError for a row that was made for another environment."""
    for question in questions:
        if question.problem.env != env.name:
            raise ValueError(
                f"env.name={env.name}: row {question.problem.index} was made for the environment"
                f" {question.problem.env} (extra_info.env): leave env.name out, or name a file of"
                f" {env.name}"
            )
