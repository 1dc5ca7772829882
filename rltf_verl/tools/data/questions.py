"""A dataset's rows as episodes ask them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rltf_verl.data.made_for import AS_IT_IS, made_for, make, takes_rows_of
from rltf_verl.data.schema import FIX, check_parquet, problem_of, text_of
from rltf_verl.envs.base import LEVELS, Env
from rltf_verl.envs.calls import bounded, explain_text, grade_text
from rltf_verl.types import Message, Problem


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """One row."""

    problem: Problem
    messages: tuple[Message, ...]
    """The first prompt."""
    source: str
    """`data_source`, by which verl keeps metrics apart."""
    split: str


@dataclass(frozen=True, slots=True)
class QuestionPreview:
    """A row, and what the environment says about an attempt at it."""

    question: QuestionRow
    feedback: Mapping[str, str]
    """Level -> text; empty without an attempt."""


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


def _question(row: dict[str, Any], where: str, env: Env | None) -> QuestionRow:
    try:
        problem = problem_of(env, row)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    messages = tuple(
        {"role": str(m["role"]), "content": text_of(m["content"])} for m in row["prompt"] or ()
    )
    if not messages:
        raise ValueError(f"{where}: the prompt is empty; {FIX}")
    split = (row["extra_info"] or {}).get("split") or ""
    return QuestionRow(problem, messages, str(row["data_source"]), split)


def first_problems(
    path: str | Path,
    num: int,
    attempt: str | None,
    env: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[QuestionPreview]:
    """The first `num` rows, and for an attempt the feedback by level.

    Args:
        path: dataset of ours, or in verl's form.
        num: rows.
        attempt: what the feedback is about; None asks for none.
        env: the environment; None is the one that the file names, and `reward_function` for a file
            in verl's form.
        options: of the environment, over those that the file names.

    Raises:
        ValueError: not such a file, or its environment cannot be made.
    """
    options = options or {}

    @cache
    def made(name: str) -> Env:
        named = made_for(path, name)
        named = named if env is None else named.at(env)
        return make(path, replace(named, options={**named.options, **options}), "--env ")

    questions = read_questions(path, num, takes_rows_of(path, env or AS_IT_IS, options))
    if attempt is None:
        return [QuestionPreview(question, {}) for question in questions]
    return [
        QuestionPreview(question, _feedback(made(question.problem.env), question.problem, attempt))
        for question in questions
    ]


def _feedback(env: Env, problem: Problem, attempt: str) -> dict[str, str]:
    env = bounded(env)
    grade = grade_text(env, problem, attempt)
    return {level: explain_text(env, problem, attempt, grade, level) for level in LEVELS}
