"""Reports of single commands: datasets, judges, episode logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from rltf_verl.texts import printable
from rltf_verl.tools.report.stats import EpisodeStats
from rltf_verl.tools.report.terminal.console import Table, say, show_table, table

if TYPE_CHECKING:
    from rltf_verl.tools.data.budget import Lengths
    from rltf_verl.tools.data.check import CheckReport
    from rltf_verl.tools.data.questions import Shown


def stats_table(ranges: Sequence[EpisodeStats]) -> Table:
    """Of ranges of one split: a line per number, a column per range of steps."""
    header = [ranges[0].split, *map(_steps, ranges)]
    stops = sorted({stop for s in ranges for stop in s.stops})
    lines: list[tuple[object, ...]] = [("episodes", *(s.sessions for s in ranges))]
    lines += [(f"ended: {stop}", *(s.stops.get(stop, 0) for s in ranges)) for stop in stops]
    for name in dict.fromkeys(name for s in ranges for name in s.mean):
        means = [s.mean.get(name) for s in ranges]
        if any(means):  # an end that no trajectory had
            lines.append((name, *(None if mean is None else f"{mean:.3g}" for mean in means)))
    return table(header, lines)


def _steps(s: EpisodeStats) -> str:
    return f"{s.first_step}" + (f"–{s.last_step}" if s.last_step != s.first_step else "")


def show_check(
    report: CheckReport,
    lengths: Sequence[Lengths],
    errors: Sequence[str],
    console: Console | None = None,
) -> None:
    """Print rows and repeated questions per file, token counts, notes, and what must be fixed."""
    out = console or Console()
    files = ((f.path, f.num_rows, f.num_repeated) for f in report.files)
    show_table(table(("file", "rows", "repeated questions"), files), out)
    if lengths:
        header = ("file", "tokens of", "min", "median", "max", "rows over the limit")
        counts = (
            (n.path, n.what, n.shortest, f"{n.median:g}", n.longest, n.num_over) for n in lengths
        )
        show_table(table(header, counts), out)
    for note in report.notes:
        say(out, "note: ", note, "yellow")
    for error in errors:
        say(out, "fix: ", error, "red")
    if not errors:
        say(out, "", "all rows can be used" if report.notes else "all rows are fine", "green")


def show_problems(
    provenance: Mapping[str, Any],
    problems: Sequence[Shown],
    attempt: str,
    console: Console | None = None,
) -> None:
    """Print the provenance, then each problem with its answer and the environment's feedback."""
    out = console or Console()
    say(out, "made by    ", provenance.get("command", "unknown: the file does not say"), "bold")
    for label, key in (("versions", "versions"), ("notes", "notes"), ("sha256", "content_sha256")):
        if provenance.get(key):
            say(out, f"{label:<11}", provenance[key], "dim")
    for shown in problems:
        question = shown.question
        where = f"{question.source} {question.split} {question.problem.index}"
        out.rule(Text(printable(where)))
        for message in question.messages:
            say(out, f"{message['role']:<11}", message["content"], "bold")
        say(out, "reference  ", question.problem.reference, "green")
        if shown.feedback:
            say(out, "attempt    ", attempt, "bold")
        for level, text in shown.feedback.items():
            say(out, f"{level:<11}", text, "cyan")


def show_trials(trials: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """Print each trial of a judge: prompt, raw reply, feedback, verdict, seconds, tokens, cost."""
    out = console or Console()
    for trial in trials:
        out.rule(Text(f"problem {trial['index']}"))
        for part, style in (("prompt", "dim"), ("raw", ""), ("feedback", "cyan"), ("error", "red")):
            if trial[part]:
                out.print(Text(f"— {part} —", "bold"))
                out.print(Text(printable(trial[part]), style), soft_wrap=True)
        leak = f"GIVES THE ANSWER AWAY ({trial['leak']})" if trial["leak"] else "no leak found"
        leak = "no feedback" if trial["error"] else leak
        noted = f", noted: {', '.join(trial['noted'])}" if trial["noted"] else ""
        prompt_tokens, reply_tokens = trial["tokens"]
        spent = (
            f"{trial['seconds']:.2f} s · {prompt_tokens} + {reply_tokens} tokens · cost"
            f" {trial['cost']:.6f}"
        )
        style = "red" if trial["leak"] or trial["error"] else "green"
        out.print(Text(f"{leak}{noted} · {spent}", style), soft_wrap=True)
