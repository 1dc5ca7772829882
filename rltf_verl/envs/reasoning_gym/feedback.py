"""A program's feedback on a wrong answer, whatever the task."""

from __future__ import annotations

import re

from rltf_verl.texts import one_line
from rltf_verl.types import Grade

NO_ANSWER = "No answer was found in \\boxed{}."
SHOWN = 200
"""Characters of an attempt's answer that are quoted back to it."""

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)


def reading(grade: Grade) -> str:
    """Say how the answer was read, and its score."""
    if not grade.parsed:
        return NO_ANSWER
    if grade.error is not None:
        return "Your answer could not be scored."
    shown = one_line(grade.parsed, SHOWN)
    score = f"Your answer was read as {shown!r} and scores {grade.score or 0.0:.2g} of 1."
    return score if grade.format_ok else f"Put the final answer in \\boxed{{}}. {score}"


def shape(answer: str) -> str:
    """Shape of an answer, without a word of it."""
    number = _NUMBER.fullmatch(answer.strip())
    if number:
        return "a number that is not whole" if number[1] else "a whole number"
    lines = answer.strip().splitlines()
    if len(lines) > 1:
        return f"{len(lines)} lines long"
    words = len(answer.split())
    if words == 1:
        return "one word or expression without blanks"
    return f"one line of {words} words or symbols"
