"""Reports of single commands: datasets, judges, episode logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from rltf_verl.texts import printable
from rltf_verl.tools.report.stats import EpisodeStats
from rltf_verl.tools.report.terminal.console import Table, say, show_table, table
from rltf_verl.types import END_REASONS

if TYPE_CHECKING:
    from rltf_verl.tools.data.budget import Lengths
    from rltf_verl.tools.data.check import CheckReport
    from rltf_verl.tools.data.questions import Shown

ANSWERS = ("acc", "format", "solved", "standing")
REVISIONS = ("fixed", "broken", "gain", "plasticity", "corrected", "repeated")


def stats_tables(ranges: Sequence[EpisodeStats]) -> list[Table]:
    """Answers and revisions, one line per range and turn; episodes, trajectories and feedback, one
    per range.
    """
    answers = ("steps", "turn", "attempts", "right", *ANSWERS[1:])
    made = [
        table(answers, _by_turn(ranges, ANSWERS)),
        table(
            ("steps", "turn", "num", *REVISIONS),
            _by_turn(ranges, [f"revisions/{name}" for name in REVISIONS]),
        ),
        table(("steps", "episodes", "friction", "ended"), map(_episodes, ranges)),
        table(
            ("steps", "steps of a trajectory", "trajectories ended"),
            [_trajectories(s) for s in ranges if s.num["steps/mean"]],
        ),
        table(
            ("steps", "feedback", "words", "no-op", "fall-back", "withheld", "leaks", "aim", "s"),
            map(_feedback, ranges),
        ),
    ]
    return [lines for lines in made if len(lines) > 1]


def _by_turn(ranges: Sequence[EpisodeStats], names: Sequence[str]) -> Iterator[Sequence[object]]:
    """The means of a turn, after how many cases the first one is of; no line without a mean."""
    for s in ranges:
        for turn in range(1, s.num_turns + 1):
            means = [s.mean.get(f"turn_{turn}/{name}") for name in names]
            if any(mean is not None for mean in means):
                yield _steps(s), turn, s.num[f"turn_{turn}/{names[0]}"], *means


def _steps(s: EpisodeStats) -> str:
    return f"{s.split} {s.first_step}" + (f"–{s.last_step}" if s.last_step != s.first_step else "")


def _episodes(s: EpisodeStats) -> tuple[object, ...]:
    ended = ", ".join(f"{stop} {num}" for stop, num in sorted(s.stops.items()))
    return _steps(s), s.sessions, s.mean.get("friction"), ended


def _trajectories(s: EpisodeStats) -> tuple[object, ...]:
    shares = {reason: s.mean[f"steps/ends/{reason}"] for reason in END_REASONS}
    ended = ", ".join(f"{reason} {100 * share:.1f} %" for reason, share in shares.items() if share)
    return _steps(s), f"{s.mean['steps/mean']:.1f}", ended


def _feedback(s: EpisodeStats) -> tuple[object, ...]:
    names = ("no_op", "fallback_share", "withheld_share", "leak_share", "aim")
    shares = [s.mean.get(f"feedback/{name}") for name in names]
    words, seconds = s.mean.get("feedback/words"), s.mean.get("feedback/latency_s")
    num = s.num["feedback/words"]
    return _steps(s), num, _number(words, 1), *shares, _number(seconds, 2)


def _number(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"


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
