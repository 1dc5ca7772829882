"""Reports for a terminal. Text that a model wrote is printed as it is, never read as markup or
control sequences.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from rltf_verl.data.schema import CORRECTIONS
from rltf_verl.runlog.turns import Record, graded, right
from rltf_verl.texts import printable
from rltf_verl.tools.report.row_words import ENDS, call_in_words, rows_in_words, said

if TYPE_CHECKING:
    from rltf_verl.data.questions import QuestionRow
    from rltf_verl.findings import Finding
    from rltf_verl.tools.data.check import CheckReport
    from rltf_verl.tools.report.stats import EpisodeStats

Table = list[tuple[str, ...]]
"""A header and its lines."""

STYLES = {"ok": "green", "note": "yellow", "failed": "red"}


def table(header: Sequence[str], lines: Iterable[Sequence[object]]) -> Table:
    """A table of what the lines hold.

    Example:
        >>> table(("name", "num"), [("a", 3), ("b", None)])
        [('name', 'num'), ('a', '3'), ('b', '–')]
    """
    cells = [tuple("–" if cell is None else str(cell) for cell in line) for line in lines]
    return [tuple(header), *cells]


def show_table(table: Sequence[Sequence[str]]) -> None:
    """Print a header and its lines; in a pipe without a frame, and whole."""
    out = Console()
    cells = [[printable(cell) for cell in line] for line in table]
    # rich takes 80 columns for a pipe and would cut cells
    if not out.is_terminal and "COLUMNS" not in os.environ:
        columns = [[cell.ljust(max(map(len, c))) for cell in c] for c in zip(*cells, strict=True)]
        for padded in zip(*columns, strict=True):
            out.print(Text("  ".join(padded).rstrip()), soft_wrap=True)
        return
    header, *lines = cells
    shown = RichTable(*header)
    for line in lines:
        shown.add_row(*(Text(cell) for cell in line))
    out.print(shown)


def show_checks(checks: Sequence[Mapping[str, str]]) -> None:
    """Print one line per check, and the fix below each failure or note."""
    out = Console()
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
    where = f"step {record['step']} {record['split']} · {record['env']} {record['index']}"
    out.rule(Text(printable(f"{where} · episode {record['session_id']}")))
    for message in record.get("context", []):
        say(out, f"{message['role']:<11}", message["content"], "dim")
    say(out, "question   ", record["question"], "bold")
    say(out, "reference  ", record["reference"], "bold")
    for k, turn in enumerate(record["turns"], 1):
        show_turn(out, f"attempt {k}", turn)
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
                # A `Text` is no markup: a fix may hold `[vllm-cpu]`.
                words = label.replace("_", " "), " ".join(_in_words(item).split())
                grid.add_row(*map(Text, words))
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
        # an observation after a valid action needs no kind, others say what was wrong
        seen = [(r["kind"].replace("ok", "saw"), r["observation"]) for r in step["results"]]
        lines += [
            (f"  step {k + 1}", said(step), ""),
            *(("    call", call, "bold") for call in calls),
            *((f"    {kind}", text, "" if kind == "saw" else "red") for kind, text in seen),
            *(("    note", note["text"], "cyan") for note in notes if note["step"] == k),
        ]
    for label, text, style in [*lines, ("  end", ENDS[turn["end"]], "dim")]:
        # further lines go below the text, not below the label
        say(out, f"{label:<13}", text.replace("\n", f"\n{'':13}"), style)


def _show_rows(record: Record, out: Console) -> None:
    """The rows of an episode, a line for each part; the viewer has their tokens."""
    rows = rows_in_words(record.get("rows", []), record["turns"])
    for k, row in enumerate(rows, start=1):
        out.print(Text(f"row {k}: {row['title']}", "bold"), soft_wrap=True)
        for part in row["parts"]:
            role, numbers = printable(part["role"]), _numbers(part)
            out.print(Text.assemble((f"  {role:<9}", "bold"), numbers), soft_wrap=True)


def _numbers(part: Mapping[str, Any]) -> str:
    # + 0.0: no minus before a zero
    advantage, gap = part["advantage"] + 0.0, part["gap"] + 0.0
    return (
        f"{part['what']} · {part['tokens']} tokens · advantage {advantage:+.4g} · masked"
        f" {part['masked']:.1%} · log-prob {part['log_prob']:.4g} · gap {gap:+.4g}"
    )


def _verdict(turn: Mapping[str, Any]) -> tuple[str, str]:
    """In words, and their style."""
    if not graded(turn):
        return "not graded", "yellow"
    if right(turn):
        return "right", "green"
    return "wrong" if turn["grade"]["format_ok"] else "wrong, no answer found", "red"


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


def stats_table(ranges: Sequence[EpisodeStats]) -> Table:
    """Ranges of one split: a line per number, a column per range of steps."""
    header = [ranges[0].split, *map(_steps, ranges)]
    stops = sorted({stop for s in ranges for stop in s.stops})
    lines: list[tuple[object, ...]] = [("episodes", *(s.sessions for s in ranges))]
    lines += [(f"ended: {stop}", *(s.stops.get(stop, 0) for s in ranges)) for stop in stops]
    for name in dict.fromkeys(name for s in ranges for name in s.mean):
        means = [s.mean.get(name) for s in ranges]
        if any(means) or "/ends/" not in name:  # no line for an end that no trajectory had
            lines.append((name, *(None if mean is None else f"{mean:.3g}" for mean in means)))
    return table(header, lines)


def _steps(s: EpisodeStats) -> str:
    return f"{s.first_step}" + (f"–{s.last_step}" if s.last_step != s.first_step else "")


def show_check(report: CheckReport) -> None:
    """Print rows and repeated questions per file, notes, and what must be fixed."""
    out = Console()
    files = ((f.path, f.num_rows, f.num_repeated) for f in report.files)
    show_table(table(("file", "rows", "repeated questions"), files))
    for note in report.notes:
        say(out, "note: ", note, "yellow")
    for error in report.errors:
        say(out, "fix: ", error, "red")
    if not report.errors:
        say(out, "", "all rows can be used" if report.notes else "all rows are fine", "green")


def show_problems(provenance: Mapping[str, Any], questions: Sequence[QuestionRow]) -> None:
    """Print the provenance, then each problem with its answer."""
    out = Console()
    say(out, "made by    ", provenance.get("command", "unknown: the file does not say"), "bold")
    for label, key in (("versions", "versions"), ("notes", "notes"), ("sha256", "content_sha256")):
        if provenance.get(key):
            say(out, f"{label:<11}", provenance[key], "dim")
    for question in questions:
        where = f"{question.source} {question.split} {question.problem.index}"
        out.rule(Text(printable(where)))
        for message in question.messages:
            say(out, f"{message['role']:<11}", message["content"], "bold")
        known = {**question.problem.data, "reference": question.problem.reference}
        is_correction = question.problem.env == CORRECTIONS
        for name in ("attempt", "correction") if is_correction else ("reference",):
            say(out, f"{name:<11}", known[name], "green")


def show_trials(trials: Sequence[Mapping[str, Any]]) -> None:
    """Print each trial of a judge: prompt, raw reply, feedback, verdict, seconds, tokens, cost."""
    out = Console()
    for trial in trials:
        out.rule(Text(f"problem {trial['index']}"))
        for part, style in (("prompt", "dim"), ("raw", ""), ("feedback", "cyan"), ("error", "red")):
            if trial[part]:
                out.print(Text(f"— {part} —", "bold"))
                out.print(Text(printable(trial[part]), style), soft_wrap=True)
        leak = f"GIVES THE ANSWER AWAY ({trial['leak']})" if trial["leak"] else "no leak found"
        leak = "CALLS A WRONG ATTEMPT RIGHT" if trial["praise"] else leak
        leak = "no feedback" if trial["error"] else leak
        noted = f", noted: {', '.join(trial['noted'])}" if trial["noted"] else ""
        prompt_tokens, reply_tokens = trial["tokens"]
        spent = (
            f"{trial['seconds']:.2f} s · {prompt_tokens} + {reply_tokens} tokens · cost"
            f" {trial['cost']:.6f}"
        )
        style = "red" if trial["leak"] or trial["praise"] or trial["error"] else "green"
        out.print(Text(f"{leak}{noted} · {spent}", style), soft_wrap=True)
    told, praised, failed = (sum(bool(t[of]) for t in trials) for of in ("leak", "praise", "error"))
    out.print(
        f"wrong attempts {len(trials)}; replies that give the answer away {told}, that call"
        f" the attempt right {praised}, without feedback {failed}",
        soft_wrap=True,
    )
