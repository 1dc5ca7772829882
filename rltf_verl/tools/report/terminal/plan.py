"""A run's plan in a terminal: what happens to a problem, how much, how often, what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rltf_verl.texts import counted, printable
from rltf_verl.tools.report.terminal.console import say, show_facts, show_turn

if TYPE_CHECKING:
    from rltf_verl.tools.plan.build import Plan, PlannedProblem

HEAD, TAIL = 14, 8
"""Lines of a long text that are shown from its two ends."""


def show_plan(plan: Plan, console: Console | None = None, *, whole: bool = False) -> None:
    """Print it; the refusals and warnings last, where a terminal stops.

    Args:
        plan: what to print.
        console: where.
        whole: long texts are not shortened.
    """
    out = console or Console(highlight=False)
    show_facts(out, f"run {plan.run['name']}", plan.run)
    for k, problem in enumerate(plan.problems):
        _problem(out, problem, whole, brief=k > 0 and not whole)
    if plan.problems:
        _rows(out, plan.problems[0])
    step = dict[str, object](plan.step or {})
    if plan.lengths is not None:
        first = plan.lengths.first
        words = f"{first.median:g} tokens in the median, {first.longest} at most"
        step["first_prompts"] = f"{words} ({first.num} looked at)"
    if step:
        show_facts(out, "each training step", step)
    show_facts(out, "the whole run", plan.schedule)
    if plan.memory:
        show_facts(out, "memory", {"needs": plan.memory})
    show_facts(out, "what to change", {"refused": plan.refusals, "warning": plan.warnings})
    verdict, style = "this run can start", "green"
    if plan.refusals:
        things = counted(len(plan.refusals), "thing")
        verdict, style = f"this run would be refused for {things}", "red"
    say(out, "", f"{verdict}; {counted(len(plan.warnings), 'warning')}", style)


def _problem(out: Console, problem: PlannedProblem, whole: bool, *, brief: bool) -> None:
    """One episode; `brief` leaves out what differs in the question alone."""
    _rule(out, f"problem {problem.index}" + (", in brief" if brief else ""))
    if problem.right is not None:
        right, form = problem.right["text"], problem.right["form"]
        _block(out, f"a right answer ({form})", right, "green", whole)
    elif problem.reference.strip():
        tried = "" if "steps" in problem.turns[0] else ", graded wrong as written"
        _block(out, f"reference{tried}", problem.reference, "yellow", whole)
    turns = problem.turns[:1] if brief else problem.turns
    for k, turn in enumerate(turns, 1):
        label = f"prompt of attempt {k} ({turn['prompt_tokens']} tokens)"
        _block(out, label, turn["prompt"], "", whole)
        show_turn(out, f"attempt {k}", turn)
    sent = {
        "what the judge is sent": problem.judge_prompts,
        "critic prompt": problem.critic_prompts,
    }
    for label, texts in sent.items():
        for text in () if brief else texts[:1]:
            _block(out, label, text, "magenta", whole)


def _rows(out: Console, problem: PlannedProblem) -> None:
    _rule(out, f"rows that this episode of problem {problem.index} trains")
    for k, row in enumerate(problem.rows, start=1):
        out.print(Text(f"{k}  {printable(row['title'])}", "bold"))
        # a row has a part per turn, and most of them say the same
        for role, advantage in dict.fromkeys((p["role"], p["advantage"]) for p in row["parts"]):
            out.print(Padding(Text(f"{role}: advantage = {advantage}"), (0, 0, 0, 3)))


def _block(out: Console, label: str, text: str, style: str, whole: bool) -> None:
    """A label, and the text below it, from both ends if it is long."""
    out.print(Text(printable(f"{label}:"), "dim"))
    lines = printable(text).split("\n")
    if not whole and len(lines) > HEAD + TAIL + 1:
        left = len(lines) - HEAD - TAIL
        lines = [*lines[:HEAD], f"… {left} lines; --whole shows them …", *lines[-TAIL:]]
    out.print(Padding(Text("\n".join(lines), style), (0, 0, 0, 2)))


def _rule(out: Console, title: str) -> None:
    out.print()
    out.rule(Text(printable(title), "bold"), align="left")
