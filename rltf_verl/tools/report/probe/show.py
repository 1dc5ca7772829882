"""A probe as tables, lines and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.console import Console
from rich.text import Text

from rltf_verl.texts import counted, printable
from rltf_verl.tools.report.evaluation.bootstrap import Estimate
from rltf_verl.tools.report.evaluation.show import shown as in_per_cent
from rltf_verl.tools.report.probe.advice import Verdict
from rltf_verl.tools.report.probe.finding import Advice, Probe, Undecided, bounds
from rltf_verl.tools.report.probe.judge import JudgeLoad
from rltf_verl.tools.report.terminal.console import show_table

LABELS = {
    "first_right": "first answers right",
    "second_right": "right after feedback",
    "improvement": "improvement of the second turn",
    "first_format": "first answers with an answer in them",
    "dead_groups": "groups of {n} with equal first rewards",
    "all_wrong_groups": "groups of {n} that all fail",
    "all_right_groups": "groups of {n} that all succeed",
    "wrong_changed": "wrong answers changed after feedback",
    "corrected": "wrong answers right after feedback",
    "spoiled": "right answers wrong after feedback",
    "tells": "feedback that holds the answer, as it was said",
    "reaches": "the same, as the policy read it",
    "guard_found": "leaks, of what the guard looked at",
    "withheld": "feedback that the guard kept back",
    "says_nothing": "feedback that says no more than right or wrong",
    "failed": "feedback asked for that did not come",
    "mentions": "second answers that speak of the feedback",
    "truncated": "answers cut off at {answer_tokens} tokens",
    "over_budget": "later prompts above {prompt_tokens} tokens",
    "shortened": "later prompts that were shortened",
}
"""Name of a measure -> what it is, in the table."""

STYLES = {"go": "green", "change first": "red", "too few episodes": "yellow"}


def share_table(probe: Probe) -> list[tuple[str, ...]]:
    """A header and a line per measure."""
    sizes = {"n": probe.run.sessions, **asdict(probe.run)}
    lines: list[tuple[str, ...]] = [("", "per cent [95 %]", "of")]
    for name, label in LABELS.items():
        measure = probe[name]
        known = measure.estimate.value is not None
        value = _value(name, measure.estimate) if known else "not known"
        lines.append((label.format(**sizes), value, str(measure.cases) if known else "–"))
    return lines


def _value(name: str, estimate: Estimate) -> str:
    """Shares with the interval that findings go by; the improvement is none, it has a sign."""
    if name == "improvement" or estimate.problems < 2:
        return in_per_cent(estimate, signed=name == "improvement")
    low, high = bounds(estimate)
    return in_per_cent(replace(estimate, low=low, high=high))


def length_table(probe: Probe) -> list[tuple[str, ...]]:
    """A header and a line per kind of text."""
    lines: list[tuple[str, ...]] = [("length", "median", "90 %", "longest", "of")]
    for name, spread in probe.measured.lengths.items():
        label = name.replace("_", " ").replace("words", "in words").replace("tokens", "in tokens")
        numbers = (
            ("not known", "", "", "–")
            if spread is None
            else (f"{spread.median:g}", f"{spread.p90:g}", f"{spread.longest:g}", str(spread.cases))
        )
        lines.append((label, *numbers))
    return lines


def judge_table(load: JudgeLoad) -> list[tuple[str, ...]]:
    """A header and a line per number."""
    price = "set feedback.price.prompt and feedback.price.completion"
    numbers = {
        "calls per episode": f"{load.calls_per_session:.2f}",
        "calls per training step": f"{load.calls_per_step:.0f}",
        "seconds per text, 50 / 90 / 99 %": " / ".join(
            "–" if q is None else f"{q:.2f}"
            for q in (load.latency_p50_s, load.latency_p90_s, load.latency_p99_s)
        ),
        "tokens per text, prompt + reply": (
            f"{load.prompt_tokens:.0f} + {load.completion_tokens:.0f}"
        ),
        "judge seconds per step": (
            "not known"
            if load.seconds_per_step is None
            else f"{load.seconds_per_step:.1f}, bound by {load.bound_by}"
        ),
        "cost per episode": (
            price if load.cost_per_session is None else f"{load.cost_per_session:.6f}"
        ),
        "cost per step": price if load.cost_per_step is None else f"{load.cost_per_step:.4f}",
    }
    return [("judge", f"of {counted(load.texts, 'text')}"), *numbers.items()]


def distance_line(probe: Probe, not_known: str) -> str:
    """How far last answers are from the student."""
    gap = probe.gap
    if gap is None:
        return f"distance of second answers from the student: not known, {not_known}"
    low_high = "" if gap.gap.low is None else f" [{gap.gap.low:.3f}, {gap.gap.high:.3f}]"
    return (
        f"second answers, nats per token: {gap.under_own.value:.3f} with the feedback,"
        f" {gap.under_first.value:.3f} without; gap {gap.gap.value:.3f}{low_high} over"
        f" {gap.answers} of {gap.asked} answers; {in_per_cent(gap.below_floor)} % of their tokens"
        " below the floor"
    )


def show(
    probe: Probe,
    verdict: Verdict,
    advice: Sequence[Advice],
    undecided: Sequence[Undecided],
    not_known: str,
    console: Console | None = None,
) -> None:
    """Tables, then what to do."""
    out = console or Console()
    episodes, problems = probe.measured.sessions, probe.measured.problems
    out.print(
        f"{counted(episodes, 'episode')} at {counted(problems, 'problem')}; intervals by bootstrap"
        " over problems",
        soft_wrap=True,
    )
    show_table(share_table(probe), out)
    show_table(length_table(probe), out)
    if probe.judge is not None:
        show_table(judge_table(probe.judge), out)
    _say(out, "", distance_line(probe, not_known), "")
    for one in advice:
        _say(out, "! " if one.blocks else "· ", one.finding, "bold red" if one.blocks else "bold")
        _say(out, "  because ", one.why, "")
        for change in one.change:
            _say(out, "  → ", change, "cyan")
    for open_one in undecided:
        _say(out, "? too few episodes to tell: ", open_one.finding, "yellow")
    _say(out, "verdict: ", verdict, STYLES[verdict])


def as_json(
    probe: Probe,
    verdict: Verdict,
    advice: Sequence[Advice],
    undecided: Sequence[Undecided],
    not_known: str,
) -> dict[str, Any]:
    """Everything, with the names of the code."""
    gap = {"not_known": not_known} if probe.gap is None else asdict(probe.gap)
    return {
        "verdict": verdict,
        "advice": [asdict(one) for one in advice],
        "undecided": [asdict(one) for one in undecided],
        "run": asdict(probe.run),
        "feedback": asdict(probe.setting),
        "measured": asdict(probe.measured),
        "judge": None if probe.judge is None else asdict(probe.judge),
        "log_probs": gap,
    }


def _say(out: Console, label: str, text: str, style: str) -> None:
    out.print(Text.assemble((label, style or "dim"), (printable(text), style)), soft_wrap=True)
