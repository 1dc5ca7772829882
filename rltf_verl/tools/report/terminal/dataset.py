"""Datasets in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from rltf_verl.texts import printable
from rltf_verl.tools.report.terminal.console import say, show_table


def show_check(
    files: Sequence[tuple[str, int, int]],
    lengths: Sequence[tuple[str, str, int, float, int, int | None]],
    notes: Sequence[str],
    errors: Sequence[str],
    console: Console | None = None,
) -> None:
    """Rows and repeated questions per file, token counts, notes, and what must be fixed."""
    out = console or Console()
    show_table(
        [
            ("file", "rows", "repeated questions"),
            *((name, str(n), str(again)) for name, n, again in files),
        ],
        out,
    )
    if lengths:
        lines = [
            (name, what, str(a), f"{b:g}", str(c), "–" if over is None else str(over))
            for name, what, a, b, c, over in lengths
        ]
        show_table(
            [("file", "tokens of", "min", "median", "max", "rows over the limit"), *lines], out
        )
    for note in notes:
        say(out, "note: ", note, "yellow")
    for error in errors:
        say(out, "fix: ", error, "red")
    if not errors:
        say(out, "", "all rows are fine", "green")


def show_problems(
    provenance: Mapping[str, Any],
    problems: Sequence[Mapping[str, Any]],
    console: Console | None = None,
) -> None:
    """Provenance, then each problem with its answer and the environment's words."""
    out = console or Console()
    say(out, "made by    ", provenance.get("command", "unknown: the file does not say"), "bold")
    for label, key in (("versions", "versions"), ("notes", "notes"), ("sha256", "content_sha256")):
        if provenance.get(key):
            say(out, f"{label:<11}", provenance[key], "dim")
    for problem in problems:
        out.rule(Text(printable(problem["where"])))
        for message in problem["prompt"]:
            say(out, f"{message['role']:<11}", message["content"], "bold")
        say(out, "reference  ", problem["reference"], "green")
        if problem["feedback"]:
            say(out, "attempt    ", problem["attempt"], "bold")
        for level, said in problem["feedback"].items():
            say(out, f"{level:<11}", said, "cyan")
