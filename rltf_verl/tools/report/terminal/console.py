"""Reports for a terminal. Text that a model wrote is printed as it is, never read as markup or
control sequences.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rltf_verl.runlog.turns import answer, graded, right, verdicts
from rltf_verl.texts import printable
from rltf_verl.tools.report.row_words import names
from rltf_verl.tools.report.terminal.rows import show_rows

if TYPE_CHECKING:
    from rltf_verl.runlog.turns import Hit

STYLES = {"ok": "green", "note": "yellow", "failed": "red"}
MARGIN = 200
"""Characters of a line shown on either side of a match."""


def show_table(table: Sequence[Sequence[str]], console: Console | None = None) -> None:
    """A header and its lines; as columns where the headers do not fit beside each other. Nothing is
    cut in a pipe.
    """
    out = console or Console()
    cells = [[printable(cell) for cell in line] for line in table]
    if console is None and not out.is_terminal and "COLUMNS" not in os.environ:
        out = Console(width=max(out.width, _width(cells)))
    if _width(cells[:1]) > out.width and len(cells) < len(cells[0]):
        cells = [list(line) for line in zip(*cells, strict=True)]
    header, *lines = cells
    shown = Table(*header)
    for line in lines:
        shown.add_row(*(Text(cell) for cell in line))
    out.print(shown)


def _width(cells: Sequence[Sequence[str]]) -> int:
    """Of a table of these lines, borders included."""
    return sum(max(map(len, column)) + 3 for column in zip(*cells, strict=True)) + 1


def show_checks(checks: Sequence[Mapping[str, str]], console: Console | None = None) -> None:
    """One line per check, and the fix under what is not ok."""
    out = console or Console()
    table = Table("where", "check", "")
    table.add_column("detail", overflow="fold")
    for check in checks:
        detail = Text(printable(check["detail"]))
        if check["fix"]:
            detail.append(f"\n→ {printable(check['fix'])}", STYLES[check["status"]])
        status = Text(check["status"], STYLES[check["status"]])
        table.add_row(Text(check["where"]), Text(check["name"]), status, detail)
    out.print(table)
    num_failed = sum(check["status"] == "failed" for check in checks)
    verdict = f"{num_failed} of {len(checks)} checks failed" if num_failed else "all is well"
    say(out, "", verdict, "red" if num_failed else "green")


ENDS = {
    "solved": "solved",
    "horizon": "its last turn",
    "not_asked": "no feedback is asked for",
    "feedback_unavailable": "no feedback",
    "prompt_too_long": "the next prompt does not fit data.max_prompt_length",
    "ungraded": "no grade",
}
"""Why an episode ends at a turn (`stop`), in words."""


def show_episode(record: Mapping[str, Any], console: Console | None = None) -> None:
    """One episode: each attempt, its verdict, the feedback that followed; what it trains."""
    out = console or Console()
    where = f"step {record['step']} {record['split']}"
    out.rule(
        Text(
            printable(
                f"{where} · {record['env']} {record['index']} · episode {record['session_id']}"
            )
        )
    )
    for message in record.get("context", []):
        say(out, f"{message['role']:<11}", message["content"], "dim")
    say(out, "question   ", record["question"], "bold")
    say(out, "reference  ", record["reference"], "bold")
    for name, turn in zip(names(record["turns"]), record["turns"], strict=True):
        grade, (verdict, style) = turn["grade"], _verdict(turn)
        say(out, f"{name}  ", turn["text"], "bold")
        cut = "" if turn["ended"] else ", cut off at the token limit"
        say(out, "grade      ", f"{verdict}{cut} (reward {turn['reward']:g})", style)
        if grade["error"]:
            say(out, "grader     ", grade["error"], "red")
        if turn["feedback"]:
            _feedback(out, "feedback   ", turn["feedback"], "cyan")
        if turn.get("withheld"):
            _feedback(out, "withheld   ", turn["withheld"], "yellow")
        if turn.get("teacher"):
            say(out, "teacher reads  ", turn["teacher"]["prompt"], "magenta")
        if turn["stop"]:
            why = ENDS.get(turn["stop"], turn["stop"])
            say(out, "end        ", " · ".join(filter(None, [why, turn["error"]])), "dim")
    show_rows(record, out)


def _verdict(turn: Mapping[str, Any]) -> tuple[str, str]:
    """In words, and their style."""
    if not graded(turn):
        return "not graded", "yellow"
    if right(turn):
        return "right", "green"
    return "wrong" if turn["grade"]["format_ok"] else "wrong, no answer found", "red"


def show_line(record: Mapping[str, Any], console: Console | None = None) -> None:
    """One episode in one line: place, verdicts, how it ended, the answer that it ended with."""
    turns = record["turns"]
    last = turns[-1] if turns else {}
    end = " · ".join(filter(None, [last.get("stop"), last.get("error")]))
    said = (answer(last) or last["text"].strip() or "(empty)") if turns else ""
    where, end, said = map(printable, (place(record), end, said))
    text = Text.assemble((where, "dim"), f"  {verdicts(turns)}  ", (end, "dim"), f"  {said}")
    (console or Console()).print(_one_line(text), no_wrap=True, overflow="ellipsis")


def show_hit(hit: Hit, console: Console | None = None) -> None:
    """Where it is, and the line with the matches marked; of a long line the part around the first
    match.
    """
    (first, end), *_ = hit.spans
    start = max(0, first - MARGIN)
    line = Text(printable(hit.line))
    for span in hit.spans:
        line.stylize("bold red", *span)
    part = line[start : end + MARGIN]
    rest = start + len(part) < len(line)
    where = printable(f"{place(hit.record)} {hit.where} {hit.turn}: ")
    shown = Text.assemble((where, "dim"), "…" * (start > 0), part, "…" * rest)
    (console or Console()).print(_one_line(shown), soft_wrap=True)


def place(record: Mapping[str, Any]) -> str:
    """Which episode it is, in words."""
    return (
        f"step {record['step']} {record['split']} {record['env']}"
        f" {record['index']}/{record['session_id']}"
    )


def _one_line(text: Text) -> Text:
    return Text(" ").join(text.split("\n", allow_blank=True))


def _feedback(out: Console, label: str, said: Mapping[str, Any], style: str) -> None:
    say(out, f"{label}[{said['provider']}] ", said["text"], style)
    if said.get("leak"):
        say(out, "leak       ", said["leak"], "red")
    if said.get("original"):
        say(out, "instead of ", said["original"], "dim")


def say(out: Console, label: str, text: object, style: str) -> None:
    """A dim label and a text in a line of its own."""
    out.print(Text.assemble((printable(label), "dim"), (printable(text), style)), soft_wrap=True)
