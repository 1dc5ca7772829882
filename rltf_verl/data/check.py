"""Whether datasets can be trained on: their rows, what they share, and how long their prompts
are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rltf_verl.data.made_for import AS_IT_IS, takes_rows_of
from rltf_verl.data.schema import (
    AGENT_NAME,
    check_parquet,
    content_sha256,
    problem_from_row,
    problem_of,
    read_provenance,
    same_everywhere,
    text_of,
)
from rltf_verl.data.wrap import question_of
from rltf_verl.envs.base import Env
from rltf_verl.envs.text.boxed import asks_for_hashes
from rltf_verl.texts import counted

MAX_TOLD = 5
"""Bad rows of a file that are named."""
TRAINED_ON = ": what is tested was trained on"


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What was found in one file."""

    path: Path
    num_rows: int
    questions: Counter[str]
    """First prompts, whatever their case and blanks -> rows."""
    messages: tuple[list[dict[str, Any]], ...]
    """First prompts."""
    splits: frozenset[str]
    errors: tuple[str, ...]
    num_formless: int = 0
    """Rows of `math` whose prompt asks for no form of answer that its grader reads."""
    as_it_is: bool = False
    """It is in verl's form, and was looked at as `reward_function` takes it."""

    @property
    def num_repeated(self) -> int:
        """Rows whose question an earlier row of the file has."""
        return self.num_rows - len(self.questions)


@dataclass(slots=True)
class CheckReport:
    """All files together."""

    files: list[CheckedFile] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)
    """Files of different splits that share questions."""
    notes: list[str] = field(default_factory=list)

    @property
    def errors(self) -> list[str]:
        """What must be fixed before training."""
        return [*(error for file in self.files for error in file.errors), *self.overlaps]


def check_files(paths: Sequence[str | Path]) -> CheckReport:
    """Look at every row of the files.

    Raises:
        ValueError: a file is neither one of ours nor in verl's form.
    """
    report = CheckReport([_check(Path(path)) for path in paths])
    for i, one in enumerate(report.files):
        if one.as_it_is:
            report.notes.append(
                f"{one.path}: names no environment, so its rows were checked for"
                f" rltf/env={AS_IT_IS}; for another one, `rltf data wrap` comes first"
            )
        if one.num_formless:
            report.notes.append(
                f"{one.path}: {one.num_formless} of {one.num_rows} prompts ask neither for"
                " \\boxed{} nor for ####, so a right answer may be graded as none"
            )
        for other in report.files[i + 1 :]:
            told = _shared(one.path, one.questions.keys(), other.path, other.questions.keys())
            if told is not None and one.splits == other.splits:
                report.notes.append(told)
            elif told is not None:
                report.overlaps.append(told + TRAINED_ON)
    return report


def shared_questions(train: Sequence[str], test: Sequence[str]) -> list[str]:
    """A line for each two different files of them that share questions. Their rows are those of
    checked files.
    """
    asked = {path: _questions_in(path) for path in {*train, *test}}
    told = [_shared(a, asked[a], b, asked[b]) for a in train for b in test if a != b]
    return [line + TRAINED_ON for line in told if line is not None]


def _shared(one: object, asked: Set[Any], other: object, also: Set[Any]) -> str | None:
    num = len(asked & also)
    return f"{one} and {other} share {counted(num, 'question')}" if num else None


def _questions_in(path: str) -> set[int]:
    """Hashes of them: a file may have a million."""
    with pq.ParquetFile(path) as file:
        prompts = (batch.column(0).to_pylist() for batch in file.iter_batches(columns=["prompt"]))
        return {hash(_normalised(_asked(p))) for p in chain.from_iterable(prompts) if p}


def _check(path: Path) -> CheckedFile:
    env = takes_rows_of(path, AS_IT_IS, {})
    check_parquet(path, env)
    table = pq.read_table(path)
    errors: list[str] = []
    num_bad = 0
    messages: list[list[dict[str, Any]]] = []
    splits: set[str] = set()
    names = ["data_source", "prompt", "extra_info", "reward_model", "agent_name"]
    rows = table.select(names if env is None else names[:-1]).to_pylist()
    for i, row in enumerate(rows):
        found = list(_faults(row, env))
        num_bad += bool(found)
        if found and num_bad <= MAX_TOLD:
            errors.append(f"{path}, row {i}: {found[0]}")
        if not found:
            messages.append(row["prompt"])
            splits.add(str((row["extra_info"] or {}).get("split")))
    if num_bad > MAX_TOLD:
        errors.append(f"{path}: {counted(num_bad - MAX_TOLD, 'more bad row')}")
    indices = [(row["extra_info"] or {}).get("index") for row in rows]
    if same_everywhere(indices):
        errors.append(
            f"{path}: extra_info.index is {indices[0]} in all rows, and seeds are made of it:"
            " number them"
        )
    said = read_provenance(path).get("content_sha256")
    if said is not None and said != content_sha256(table):
        errors.append(
            f"{path}: its rows are not those that it was written with (content_sha256 of its"
            " provenance)"
        )
    questions = Counter(_normalised(_asked(prompt)) for prompt in messages)
    return CheckedFile(
        path,
        len(rows),
        questions,
        tuple(messages),
        frozenset(splits),
        tuple(errors),
        num_formless=sum(_is_formless(row) for row in rows),
        as_it_is=env is not None,
    )


def _asked(prompt: list[dict[str, Any]]) -> str:
    """The question; of a conversation all of it, as several may end with the same words."""
    if len(prompt) == 1:
        return question_of(prompt)
    return "\n".join(f"{message['role']}: {text_of(message['content'])}" for message in prompt)


def _is_formless(row: dict[str, Any]) -> bool:
    if (row["extra_info"] or {}).get("env") != "math":
        return False
    said = [
        str(message.get("content")) for message in row["prompt"] or () if isinstance(message, dict)
    ]
    return not any("\\boxed" in text or asks_for_hashes(text) for text in said)


def _faults(row: dict[str, Any], env: Env | None) -> Iterator[str]:
    """What is wrong with a row of ours, or with one in verl's form for `env`."""
    prompt = row["prompt"]
    try:
        if env is None:
            problem_from_row(row["extra_info"] or {}, row["reward_model"] or {})
        elif prompt:
            problem_of(env, row)
    except ValueError as error:
        yield str(error)
    try:
        if not all(isinstance(m["role"], str) for m in prompt) or not question_of(prompt).strip():
            yield "its prompt has no text"
    except ValueError as error:
        yield str(error)
    except (TypeError, LookupError, AttributeError):
        yield "its prompt is no list of chat messages"
    if env is None and row["agent_name"] != AGENT_NAME:
        yield f"agent_name is {row['agent_name']!r} and not {AGENT_NAME!r}"


def _normalised(question: str) -> str:
    return " ".join(question.casefold().split())
