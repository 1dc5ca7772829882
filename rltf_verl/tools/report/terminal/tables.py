"""Reports of single commands: datasets, judges, episode logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from rltf_verl.texts import printable
from rltf_verl.tools.report.audit import Audit
from rltf_verl.tools.report.stats import Stats
from rltf_verl.tools.report.terminal.console import Table, say, show_table, table

if TYPE_CHECKING:
    from rltf_verl.tools.data.budget import PromptLengths
    from rltf_verl.tools.data.check import CheckReport
    from rltf_verl.tools.data.questions import QuestionPreview

REVISIONS = ("fixed", "broken", "gain", "plasticity", "corrected", "repeated")
NUMBERS = ("leaks", "withheld", "words", "no-op", "changed", "better", "worse", "seconds")


def audit_table(audits: Sequence[Audit]) -> Table:
    """One line per provider."""
    lines = (
        (
            *(a.provider, a.num, a.leaks, a.withheld, f"{a.words:g}", a.no_op),
            *(a.changed, a.better, a.worse, f"{a.latency_s:.2f}"),
        )
        for a in audits
    )
    return table(("provider", "texts", *NUMBERS), lines)


def stats_tables(ranges: Sequence[Stats]) -> list[Table]:
    """Answers and revisions, one line per range and turn; episodes, trajectories and feedback, one
    per range.
    """
    turns = [(_steps(s), t) for s in ranges for t in s.turns]
    tables = [
        table(
            ("steps", "turn", "attempts", "right", "format", "solved", "standing"),
            ((w, t.turn, t.num, t.acc, t.format, t.solved, t.standing) for w, t in turns),
        ),
        table(
            ("steps", "turn", "num", *REVISIONS),
            (
                (where, t.turn, t.revisions.num, *(getattr(t.revisions, n) for n in REVISIONS))
                for where, t in turns
                if t.revisions.num
            ),
        ),
        table(
            ("steps", "episodes", "friction", "ended"),
            (
                (
                    *(_steps(s), s.sessions, s.friction),
                    ", ".join(f"{stop} {num}" for stop, num in sorted(s.stops.items())),
                )
                for s in ranges
            ),
        ),
        table(
            ("steps", "steps of a trajectory", "trajectories ended"),
            (
                (_steps(s), f"{s.trajectories['mean']:.1f}", _shares(s.trajectories))
                for s in ranges
                if s.trajectories
            ),
        ),
        table(
            ("steps", "feedback", "words", "no-op", "fall-back", "withheld", "leaks", "aim"),
            ((_steps(s), *_feedback(s)) for s in ranges),
        ),
    ]
    return [table for table in tables if len(table) > 1]


def _steps(s: Stats) -> str:
    return f"{s.split} {s.first_step}" + (f"–{s.last_step}" if s.last_step != s.first_step else "")


def _shares(means: Mapping[str, float]) -> str:
    ends = ((name.partition("ends/")[2], share) for name, share in means.items())
    return ", ".join(f"{end} {100 * share:.1f} %" for end, share in ends if end)


def _feedback(s: Stats) -> tuple[object, ...]:
    f = s.feedback
    words = None if f.words is None else f"{f.words:.1f}"
    return f.num, words, f.no_op, f.fallback_share, f.withheld_share, f.leak_share, f.aim


def show_check(
    report: CheckReport,
    lengths: Sequence[PromptLengths],
    errors: Sequence[str],
    console: Console | None = None,
) -> None:
    """Print rows and repeated questions per file, token counts, notes, and what must be fixed."""
    out = console or Console()
    files = ((f.path, f.num_rows, f.num_repeated) for f in report.files)
    show_table(table(("file", "rows", "repeated questions"), files), out)
    if lengths:
        header = ("file", "tokens of", "min", "median", "max", "rows over the limit")
        counts = []
        for kind in lengths:
            tokens = kind.tokens
            sizes = (tokens.shortest, f"{tokens.median:g}", tokens.longest, tokens.num_over)
            counts.append((kind.path, kind.what, *sizes))
        show_table(table(header, counts), out)
    for note in report.notes:
        say(out, "note: ", note, "yellow")
    for error in errors:
        say(out, "fix: ", error, "red")
    if not errors:
        say(out, "", "all rows can be used" if report.notes else "all rows are fine", "green")


def show_problems(
    provenance: Mapping[str, Any],
    problems: Sequence[QuestionPreview],
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
