"""A program's feedback on a wrong answer. Nothing here names a value of the right one."""

from __future__ import annotations

from rltf_verl.envs.text.boxed import HASHES
from rltf_verl.texts import one_line
from rltf_verl.types import Grade, Problem

SHOWN = 100
"""Characters of an attempt's answer that are quoted back to it."""


def place(problem: Problem) -> str:
    """The place for the answer."""
    return f"after {HASHES}" if problem.data.get("form") == HASHES else "in \\boxed{}"


def reading(answer: str | None, grade: Grade, where: str) -> str:
    """Say how the answer was read; `where`: its place, in words."""
    if answer is None:
        return f"No answer was found {where}."
    if grade.error is not None:
        return f"What stands {where} could not be compared; write the answer in its simplest form."
    if "read" in grade.details and grade.details["read"] is None:
        return f"What stands {where} could not be read as mathematics."
    return f"Your answer was read as {one_line(answer, SHOWN)}."


def hint(grade: Grade) -> str:
    """The kind of the right answer; empty if unknown."""
    kind, wanted = grade.details.get("kind"), grade.details.get("wanted_kind")
    if wanted is None:
        return ""
    if kind == wanted:
        return f"It is {kind}, as it should be, but not the right one."
    return f"The answer should be {wanted}{f', and yours is {kind}' if kind else ''}."
