"""Checks of datasets before a training: rows, and questions that files share."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rltf_verl.data.made_for import AS_IT_IS, takes_rows_of
from rltf_verl.data.provenance import content_sha256, read_provenance
from rltf_verl.data.schema import (
    AGENT_NAME,
    NO_CHAT,
    REQUIRED,
    check_parquet,
    is_own_loop,
    problem_of,
    same_everywhere,
    text_of,
)
from rltf_verl.envs import env_names
from rltf_verl.envs.base import Env
from rltf_verl.texts import counted
from rltf_verl.types import Problem

MOST_NAMED = 5
"""Bad rows of a file that are named."""
TRAINED_ON = ": what is tested was trained on"
UNNAMED = (
    ", and extra_info.split does not say what each is for: drop them from the test file, or check"
    " files for the same use one by one"
)
ROLES = ("system", "developer", "user", "assistant", "tool")
"""Roles of messages; a chat template drops or refuses others."""
GRADE_WITHOUT_REFERENCE = (
    *("code", "corrections", "writing", "gym_text", "textarena", "tool_object"),
    AS_IT_IS,
)
"""Environments in which a problem may have none."""


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """The rows of one file."""

    path: Path
    num_rows: int
    questions: Counter[str]
    """First prompts, whatever their case and blanks -> rows."""
    splits: frozenset[str]
    """Splits that its rows name."""
    errors: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def num_repeated(self) -> int:
        """Rows whose question an earlier row of the file has."""
        return self.questions.total() - len(self.questions)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All files together."""

    files: list[CheckedFile]
    errors: list[str]
    """Faults to fix before training: those of each file; then files that share questions, and whose
    rows do not all name the same splits.
    """
    notes: list[str]


def check_files(paths: Sequence[str | Path]) -> CheckReport:
    """Look at every row of the files.

    Raises:
        ValueError: a file is neither one of ours nor in verl's form.
    """
    files = [_check(Path(path)) for path in paths]
    errors = [error for file in files for error in file.errors]
    notes = [note for file in files for note in file.notes]
    for a, b in combinations(files, 2):
        line = _shared_line(a.path, a.questions.keys(), b.path, b.questions.keys())
        named = a.splits and b.splits
        if line is not None and named and a.splits == b.splits:
            notes.append(line)
        elif line is not None:
            errors.append(line + (TRAINED_ON if named else UNNAMED))
    return CheckReport(files, errors, notes)


def shared_questions(train: Sequence[str], test: Sequence[str]) -> list[str]:
    """A line for each two different files of them that share questions. Their rows are those of
    checked files.
    """
    asked = {path: _questions_in(path) for path in {*train, *test}}
    pairs = [_shared_line(a, asked[a], b, asked[b]) for a in train for b in test if a != b]
    return [line + TRAINED_ON for line in pairs if line is not None]


def _shared_line(first: object, asked: Set[Any], second: object, also: Set[Any]) -> str | None:
    num = len(asked & also)
    return f"{first} and {second} share {counted(num, 'question')}" if num else None


def _questions_in(path: str) -> set[int]:
    """Hashes of them: a file may have a million."""
    with pq.ParquetFile(path) as file:
        prompts = (batch.column(0).to_pylist() for batch in file.iter_batches(columns=["prompt"]))
        return {hash(_normalise(_question_of(p))) for p in chain.from_iterable(prompts) if p}


def _check(path: Path) -> CheckedFile:
    """Look at every row of a file."""
    env = takes_rows_of(path, AS_IT_IS, {})
    check_parquet(path, env)
    table = pq.read_table(path)
    # a file in verl's form may lack the last ones
    rows = table.select([name for name in REQUIRED if name in table.column_names]).to_pylist()
    faults = {i: fault for i, row in enumerate(rows) if (fault := _fault(row, env))}
    errors = [f"{path}, row {i}: {fault}" for i, fault in list(faults.items())[:MOST_NAMED]]
    if len(faults) > MOST_NAMED:
        errors.append(f"{path}: {counted(len(faults) - MOST_NAMED, 'more bad row')}")
    indices = [(row.get("extra_info") or {}).get("index") for row in rows]
    if same_everywhere(indices):
        errors.append(
            f"{path}: extra_info.index is {indices[0]} in all rows, and seeds are made of it:"
            " number them"
        )
    recorded = read_provenance(path).get("content_sha256")
    if recorded not in (None, content_sha256(table.to_batches())):
        errors.append(
            f"{path}: its rows are not those that it was written with (content_sha256 of its"
            " provenance)"
        )
    good = [row for i, row in enumerate(rows) if i not in faults]
    splits = ((row.get("extra_info") or {}).get("split") for row in good)
    return CheckedFile(
        path,
        len(rows),
        Counter(_normalise(_question_of(row["prompt"])) for row in good),
        frozenset(str(split) for split in splits if split),
        tuple(errors),
        tuple(f"{path}: {note}" for note in _notes(good, env)),
    )


def _notes(good: Sequence[dict[str, Any]], env: Env | None) -> Iterator[str]:
    if env is not None:
        yield (
            f"names no environment, so its rows were checked for rltf/env={AS_IT_IS}; `rltf plan`"
            " checks the first one for another environment"
        )
    answers: dict[str, set[str]] = defaultdict(set)
    for row in good:
        answers[_question_of(row["prompt"])].add(problem_of(env, row).reference.strip())
    several = [question for question, references in answers.items() if len(references) > 1]
    if several:
        yield (
            f"{counted(len(several), 'question')} with more than one reference answer, e.g."
            f" {' '.join(several[0].split())[:80]!r}: keep the right one"
        )


def _question_of(prompt: list[dict[str, Any]]) -> str:
    """The question; of a conversation all of it, as several may end with the same words."""
    if len(prompt) == 1:
        return text_of(prompt[-1]["content"])
    return "\n".join(f"{message['role']}: {text_of(message['content'])}" for message in prompt)


def _fault(row: dict[str, Any], env: Env | None) -> str:
    """The fault of a row of ours, or of one in verl's form for `env`; empty without one."""
    try:
        problem = problem_of(env, row)
        roles = [message["role"] for message in row["prompt"]]
        question = [text_of(message["content"]) for message in row["prompt"]][-1]
    except ValueError as error:
        return str(error)
    except (TypeError, LookupError, AttributeError):
        return NO_CHAT
    if not is_own_loop(row.get("agent_name", AGENT_NAME)):
        return f"agent_name is {row['agent_name']!r}, not {AGENT_NAME!r}"
    if not question.strip():
        return "its prompt has no text"
    unknown = [role for role in roles if role not in ROLES]
    if unknown:
        return f"a message has the role {unknown[0]!r}: write one of {', '.join(ROLES)}"
    if roles[-1] != "user":
        return f"its prompt ends with a message of the {roles[-1]}: end it with the user's"
    return _fault_of_reference(problem)


def _fault_of_reference(problem: Problem) -> str:
    # a missing value, NaN, is `nan` as a text
    blank = problem.reference.strip().casefold() in ("", "nan")
    if blank and problem.env in set(env_names()) - {*GRADE_WITHOUT_REFERENCE}:
        return f"its reference answer is {problem.reference!r}: write the answer, or drop the row"
    return ""


def _normalise(question: str) -> str:
    return " ".join(question.casefold().split())
