"""Feedback of the environment `code`, from public tests only; it runs no code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rltf_verl.envs.base import INCORRECT, FeedbackLevel, verdict
from rltf_verl.envs.code.text import fenced, shorten
from rltf_verl.types import Grade

NO_PROGRAM = "It has no Python program: put the complete program into one ```python block."
NOT_RUN = "It could not be run."

SHOWN = 400
"""Characters of an input or an output that are kept and shown."""
MOST_TESTS = 5
"""Failing tests that are shown in full."""
SOLUTION_SHOWN = 4000

ENDINGS = {
    "timeout": "It ran out of time ({time_s} s).",
    "memory": "It ran out of memory ({memory_mb} MB).",
    "output": "Its output is longer than {output_kb} KB.",
}


def explain(
    data: Mapping[str, Any], grade: Grade, level: FeedbackLevel, limits: Mapping[str, int]
) -> str:
    """The text for one level; see the environment. `grade.details` is what the environment has put
    there.
    """
    if grade.correct or level == "verdict":
        return verdict(grade)
    if not grade.format_ok:
        text = NO_PROGRAM
    elif grade.error is not None:
        text = NOT_RUN
    else:
        text = _diagnosis(data, grade, level, limits)
    if level == "full" and data["solution"]:
        text = f"{text}\nA correct program is:\n{fenced(shorten(data['solution'], SOLUTION_SHOWN))}"
    return f"{INCORRECT} {text}"


def _diagnosis(
    data: Mapping[str, Any], grade: Grade, level: FeedbackLevel, limits: Mapping[str, int]
) -> str:
    public, num = grade.details["public"], len(data["public"])
    failing = [k for k, seen in enumerate(public) if not seen["passed"]]
    broken = grade.details["syntax"]
    if broken is not None:
        return _does_not_parse(broken, grade.parsed or "", level)
    if not num:
        return "A hidden test does not pass."
    if not failing:
        return f"All {num} public tests pass, but a hidden test does not."
    passing = sum(seen["passed"] for seen in public)
    of = f"{num}" if len(public) == num else f"the {len(public)} that were run"
    where = (
        f"Public test {failing[0] + 1} of {num} is the first that fails; {passing} of {of} pass."
    )
    if level == "location":
        return where
    most = MOST_TESTS if level == "full" and not data["solution"] else 1
    lines = [_test(data["public"][k], public[k], data["entry"], limits) for k in failing[:most]]
    return "\n".join([where, *lines])


def _does_not_parse(seen: Mapping[str, Any], source: str, level: FeedbackLevel) -> str:
    line, lines = seen["line"], source.split("\n")
    where = "It does not parse." if line is None else f"It does not parse: line {line}."
    if level == "location":
        return where
    known = line is not None and 1 <= line <= len(lines)
    quoted = f"\nLine {line}: {shorten(lines[line - 1].strip(), SHOWN)}" if known else ""
    return f"{where} {seen['message']}{quoted}".strip()


def _test(
    test: Mapping[str, Any], seen: Mapping[str, Any], entry: str | None, limits: Mapping[str, int]
) -> str:
    given, wanted = _as_text(test["input"], entry), _as_text(test["accept"][-1], entry)
    text = f"Input:\n{shorten(given, SHOWN)}\nExpected:\n{shorten(wanted, SHOWN)}\n"
    if seen["ending"] == "ok":
        return f"{text}Got:\n{seen['output'] or '(nothing)'}"
    if seen["ending"] in ENDINGS:
        return text + ENDINGS[seen["ending"]].format(**limits)
    where = "" if seen["line"] is None else f" in line {seen['line']}"
    return f"{text}It failed{where}: {seen['message']}"


def _as_text(value: Any, entry: str | None) -> str:
    if entry is None:
        return str(value).strip("\n")
    return json.dumps(value, ensure_ascii=False)
