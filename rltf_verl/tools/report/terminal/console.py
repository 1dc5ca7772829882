"""Reports for a terminal. Text that a model wrote is printed as it is, never read as markup or
control sequences.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from rltf_verl.runlog.turns import Record, answer, graded, right, verdicts
from rltf_verl.texts import printable
from rltf_verl.tools.report.row_words import ENDS, call_in_words, names, rows_in_words, said

if TYPE_CHECKING:
    from rltf_verl.findings import Finding
    from rltf_verl.runlog.turns import Hit

Table = list[tuple[str, ...]]
"""A header and its lines."""

STYLES = {"ok": "green", "note": "yellow", "failed": "red"}
MARGIN = 200
"""Characters of a line shown on either side of a match."""
MARKS = str.maketrans({"\n": "↵\n", "\t": "⇥\t"})
UP, DOWN, CONTEXT = "white on blue", "black on dark_orange", "dim"
KEY = (
    "tokens: struck through = masked, dim = context, blue = advantage above 0, orange and"
    " underlined = below 0"
)


def table(header: Sequence[str], lines: Iterable[Sequence[object]]) -> Table:
    """A table of what the lines hold.

    Example:
        >>> table(("name", "num", "share"), [("a", 3, 0.5), ("b", 0, None)])
        [('name', 'num', 'share'), ('a', '3', '50.0 %'), ('b', '0', '–')]
    """
    return [tuple(header), *(tuple(map(_cell, line)) for line in lines)]


def _cell(value: object) -> str:
    """A float is a share; any other number comes as a text."""
    if value is None:
        return "–"
    return f"{100 * value:.1f} %" if isinstance(value, float) else str(value)


def show_table(table: Sequence[Sequence[str]], console: Console | None = None) -> None:
    """Print a header and its lines; transposed where the headers do not fit. A pipe gets all of
    it.
    """
    out = console or Console()
    cells = [[printable(cell) for cell in line] for line in table]
    if console is None and not out.is_terminal and "COLUMNS" not in os.environ:
        out = Console(width=max(out.width, _width(cells)))
    if _width(cells[:1]) > out.width and len(cells) < len(cells[0]):
        cells = [list(line) for line in zip(*cells, strict=True)]
    header, *lines = cells
    shown = RichTable(*header)
    for line in lines:
        shown.add_row(*(Text(cell) for cell in line))
    out.print(shown)


def _width(cells: Sequence[Sequence[str]]) -> int:
    """Columns that a table of these lines needs, borders included."""
    return sum(max(map(len, column)) + 3 for column in zip(*cells, strict=True)) + 1


def show_checks(checks: Sequence[Mapping[str, str]], console: Console | None = None) -> None:
    """Print one line per check, and the fix below each failure or note."""
    out = console or Console()
    shown = RichTable("where", "check", "")
    shown.add_column("detail", overflow="fold")
    for check in checks:
        detail = Text(printable(check["detail"]))
        if check["fix"]:
            detail.append(f"\n→ {printable(check['fix'])}", STYLES[check["status"]])
        status = Text(check["status"], STYLES[check["status"]])
        shown.add_row(Text(check["where"]), Text(check["name"]), status, detail)
    out.print(shown)
    num_failed = sum(check["status"] == "failed" for check in checks)
    verdict = f"{num_failed} of {len(checks)} checks failed" if num_failed else "all is well"
    say(out, "", verdict, "red" if num_failed else "green")


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
        show_turn(out, name, turn)
    _show_rows(record, out)


def show_turn(out: Console, name: str, turn: Record) -> None:
    """One attempt, its verdict, the feedback that followed, and why the episode ended there."""
    grade, (verdict, style) = turn["grade"], _verdict(turn)
    if "steps" in turn:
        show_steps(out, name, turn, (turn["feedback"] or {}).get("notes", ()))
    else:
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


def show_facts(out: Console, title: str, facts: Mapping[str, object]) -> None:
    """Print a rule, and a line per label and value; a list has a line per item, and what is not
    known has none.
    """
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in facts.items():
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                grid.add_row(label.replace("_", " "), " ".join(_in_words(item).split()))
    out.print()
    out.rule(Text(printable(title), "bold"), align="left")
    out.print(grid)


def _in_words(value: object) -> str:
    """
    >>> [_in_words(value) for value in (True, 1234567, 0.25, "text")]
    ['yes', '1 234 567', '0.25', 'text']
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace(",", " ")
    return f"{value:.4g}" if isinstance(value, float) else printable(str(value))


def show_steps(
    out: Console, name: str, turn: Record, notes: Sequence[Mapping[str, Any]] = ()
) -> None:
    """A trajectory: of each step what the policy said, its calls, what the environment answered and
    the notes on it; then why it ended.
    """
    lines = [(name, "", "")]
    for k, step in enumerate(turn["steps"]):
        calls = [call_in_words(action) for action in step["actions"] if action["tool"]]
        seen = [(r["kind"].replace("ok", "saw"), r["observation"]) for r in step["results"]]
        lines += [
            (f"  step {k + 1}", said(step), ""),
            *(("    call", call, "bold") for call in calls),
            *((f"    {kind}", text, "" if kind == "saw" else "red") for kind, text in seen),
            *(("    note", note["text"], "cyan") for note in notes if note["step"] == k),
        ]
    for label, text, style in [*lines, ("  end", ENDS[turn["end"]], "dim")]:
        say(out, f"{label:<13}", text.replace("\n", f"\n{'':13}"), style)


def _show_rows(record: Record, out: Console) -> None:
    """The rows of an episode; their tokens only on a terminal, since a file would repeat the
    attempts.
    """
    rows = record.get("rows", [])
    for k, (row, words) in enumerate(
        zip(rows, rows_in_words(rows, record["turns"]), strict=True), start=1
    ):
        out.print(Text(f"row {k}: {words['title']}", "bold"), soft_wrap=True)
        for part in words["parts"]:
            out.print(_part_line(part), soft_wrap=True)
        if "tokens" in row and out.is_terminal:
            out.print(coloured(row["tokens"]), soft_wrap=True)
    if out.is_terminal and any("tokens" in row for row in rows):
        out.print(Text(KEY, "dim"), soft_wrap=True)


def coloured(tokens: Mapping[str, Sequence[Any]]) -> Text:
    """The text of a row's tokens; line ends and tabs have a mark, so that theirs can be seen."""
    styles = map(_token_style, tokens["role"], tokens["advantage"], tokens["masked"])
    text = Text()
    for style, pieces in groupby(
        zip(styles, tokens["text"], strict=True), key=lambda pair: pair[0]
    ):
        text.append(printable("".join(piece for _, piece in pieces).translate(MARKS)), style)
    return text


def _token_style(role: int, advantage: float, masked: int) -> str:
    if role < 0:
        return CONTEXT
    style = UP if advantage > 0 else f"{DOWN} underline" if advantage < 0 else ""
    return f"{style} strike".strip() if masked else style


def _part_line(part: Mapping[str, Any]) -> Text:
    role, what = printable(part["role"]), part["what"]
    numbers = (
        f"{part['tokens']} tokens",
        f"advantage {part['advantage'] + 0.0:+.4g}",
        f"masked {part['masked']:.1%}",
        f"log-prob {part['log_prob']:.4g}",
        f"gap {part['gap'] + 0.0:+.4g}",
    )
    return Text.assemble((f"  {role:<9}", "bold"), f"{what} · {' · '.join(numbers)}")


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
    ending = (answer(last) or last["text"].strip() or "(empty)") if turns else ""
    where, end, ending = map(printable, (place(record), end, ending))
    text = Text.assemble((where, "dim"), f"  {verdicts(turns)}  ", (end, "dim"), f"  {ending}")
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


def _feedback(out: Console, label: str, feedback: Mapping[str, Any], style: str) -> None:
    say(out, f"{label}[{feedback['provider']}] ", feedback["text"], style)
    if feedback.get("leak"):
        say(out, "leak       ", feedback["leak"], "red")
    if feedback.get("original"):
        say(out, "instead of ", feedback["original"], "dim")


def say(out: Console, label: str, text: object, style: str) -> None:
    """Print a dim label and a text on one line."""
    out.print(Text.assemble((printable(label), "dim"), (printable(text), style)), soft_wrap=True)


def show_feedback(findings: Sequence[Finding], num: int) -> None:
    """Print a line for each thing that is wrong with feedback on so many attempts."""
    out = Console()
    for finding in findings:
        line = f"{finding.key} ({finding.value} attempts): {finding.why}; {finding.fix}"
        say(out, "! ", line, "bold red")
    if not findings:
        say(out, "", f"nothing is wrong with the feedback on {num} attempts", "green")
