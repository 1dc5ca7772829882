"""A run's plan in a terminal: what happens to a problem, how much, how often, what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rltf_verl.texts import counted, printable
from rltf_verl.tools.report.terminal.console import ENDS
from rltf_verl.tools.report.view.row_words import TRAINS

Json = Mapping[str, Any]
HEAD, TAIL = 14, 8
"""Lines of a long text that are shown from its two ends."""
WHAT = {
    **TRAINS,
    "logit_distill": "answers, towards what the teacher says there",
}


def show_plan(plan: Json, console: Console | None = None, *, whole: bool = False) -> None:
    """Print it; the refusals and warnings last, where a terminal stops.

    Args:
        plan: as of `rltf_verl.tools.plan.build.make_plan`.
        console: where.
        whole: long texts are not shortened.
    """
    out = console or Console(highlight=False)
    _run(out, plan["run"])
    for k, problem in enumerate(plan["problems"]):
        _problem(out, problem, plan["run"], whole, brief=k > 0 and not whole)
    if plan["problems"]:
        _rows(out, plan["problems"][0])
    if plan["step"] is not None:
        _step(out, plan["step"], plan["lengths"], plan["run"])
    _schedule(out, plan["schedule"])
    _verdict(out, plan["refusals"], plan["warnings"])


def _run(out: Console, run: Json) -> None:
    _rule(out, f"run {run['name']}")
    table = _pairs()
    n = run["episodes_per_problem"]
    table.add_row("model", _one(run["model"]))
    table.add_row("devices", _one(run["devices"]))
    for what, split in (("train", "train"), ("validate", "val")):
        table.add_row(what, _data(run[f"{split}_files"], run[f"{split}_rows"]))
    limits = f"{run['max_prompt_length']} tokens a prompt, {run['max_response_length']} an answer"
    table.add_row("limits", limits)
    if "turns" in run:
        several = run["turns"] > 1
        later = f", later prompts by template {_one(run['revise'])}" if several else ""
        appended = ", one growing chat" if run["context"] == "append" else ""
        turns = f"up to {run['turns']} answers{appended}{later}" if several else "one answer"
        table.add_row("environment", _one(run["environment"]))
        table.add_row("feedback", f"{_one(run['feedback'])}; leak guard {run['guard']}")
        table.add_row("an episode", f"{turns}; {counted(n, 'episode')} a problem")
        if run["teacher"] is not None:
            table.add_row("teacher", _teacher(run["teacher"]))
        for own in run["trains"]:
            what = WHAT.get(own["role"], "")
            table.add_row("trains", f"{own['objective']} × {own['weight']}: {what}".rstrip(": "))
    out.print(table)


def _teacher(teacher: Json) -> str:
    which = {"first": "first answers", "last": "last answers", "all": "answers"}[teacher["turns"]]
    only = "" if teacher["right"] else " that are wrong"
    reads = ", ".join(teacher["reads"])
    return _one(f"of {which}{only}; reads {reads}, by template {teacher['template']}")


def _problem(out: Console, problem: Json, run: Json, whole: bool, *, brief: bool) -> None:
    """One episode; `brief` leaves out what differs in the question alone."""
    _rule(out, f"problem {problem['index']}" + (", in brief" if brief else ""))
    right = problem["right"]
    if right is not None:
        _block(out, f"a right answer ({right['form']})", right["text"], "green", whole)
    elif problem["reference"].strip():
        _block(out, "reference, graded wrong as written", problem["reference"], "yellow", whole)
    for k, turn in enumerate(problem["turns"][:1] if brief else problem["turns"], start=1):
        name = "first prompt" if k == 1 else f"prompt {k}, after feedback"
        _block(out, f"{name} ({turn['prompt_tokens']} tokens)", turn["prompt"], "", whole)
        _block(out, f"answer {k}, for example", turn["answer"], "bold", whole)
        _grade(out, turn)
        if turn["feedback"] is not None:
            what = "feedback that the leak guard withholds" if turn["withheld"] else "feedback"
            instead = _placeholder(run) if turn["placeholder"] else ""
            _block(out, f"{what} [{turn['provider']}]{instead}", turn["feedback"], "cyan", whole)
        if turn["leak"]:
            _line(out, "  tells the answer: ", turn["leak"], "red")
        if turn["teacher"] is not None:
            label = f"what the teacher of answer {k} reads ({turn['teacher_tokens']} tokens)"
            _block(out, label, turn["teacher"], "magenta", whole)
    if brief:
        return
    for text in problem["judge_prompts"][:1]:
        _block(out, "what the judge is sent", text, "magenta", whole)
    for text in problem["critic_prompts"][:1]:
        _block(out, "critic prompt", text, "magenta", whole)


def _placeholder(run: Json) -> str:
    most = run["most_words"]
    words = f"; the judge may write up to {most} words" if most else ""
    return f", a placeholder: a plan asks no one{words}"


def _grade(out: Console, turn: Json) -> None:
    read = "" if turn["parsed"] is None else f", read as {_one(turn['parsed'])}"
    verdict = ("right" if turn["correct"] else "wrong") + read
    if turn["stop"] == "ungraded":
        verdict = "not graded"
    broken = f"; the grader failed: {turn['grader_error']}" if turn["grader_error"] else ""
    end = f"; ends here: {ENDS.get(turn['stop'], turn['stop'])}" if turn["stop"] else ""
    style = "green" if turn["correct"] else "red"
    _line(out, "  grade ", f"{verdict}, reward {turn['reward']:g}{broken}{end}", style)


def _rows(out: Console, problem: Json) -> None:
    _rule(out, f"rows that this episode of problem {problem['index']} trains")
    for k, row in enumerate(problem["rows"], start=1):
        out.print(Text(f"{k}  {printable(row['title'])}", "bold"))
        for part in dict.fromkeys((p["role"], p["advantage"]) for p in row["parts"]):
            out.print(Padding(Text(f"{part[0]}: advantage = {part[1]}"), (0, 0, 0, 3)))


def _step(out: Console, step: Json, lengths: Json | None, run: Json) -> None:
    _rule(out, "each training step")
    table = _pairs()
    n = run["episodes_per_problem"]
    table.add_row(
        "episodes", f"{counted(step['problems'], 'problem')} × {n} = {_n(step['episodes'])}"
    )
    table.add_row("answers", f"at most {_n(step['most_answers'])}")
    if step["most_rows"] is not None:
        few, most = _n(step["fewest_rows"]), _n(step["most_rows"])
        table.add_row("rows", most if few == most else f"{few} (all solved at once) to {most}")
        table.add_row(
            "tokens",
            f"at most {_n(step['most_sampled_tokens'])} sampled,"
            f" {_n(step['most_trained_tokens'])} in rows",
        )
    if step["most_judge_calls"]:
        price = step["most_judge_price"]
        cost = f", at most {price:,.2f} by rltf.feedback.price" if price else ""
        table.add_row("judge calls", f"at most {_n(step['most_judge_calls'])}{cost}")
    table.add_row("updates", f"{step['optimiser_updates']} of the optimiser")
    if lengths is not None:
        table.add_row(
            "first prompts",
            f"{lengths['median']:g} tokens in the median, {lengths['longest']} at most"
            f" ({lengths['num']} looked at)",
        )
    out.print(table)


def _schedule(out: Console, schedule: Json) -> None:
    _rule(out, "the whole run")
    table = _pairs()
    steps, per_epoch = schedule["steps"], schedule["steps_per_epoch"]
    table.add_row("steps", f"{_n(steps)} ({_n(per_epoch)} an epoch)" if steps else "not known")
    table.add_row("validates", _validates(schedule))
    every = schedule["save_every"]
    saved = f"{_every(every)} and at the end, in" if every > 0 else "never; folder"
    table.add_row("saves", f"{saved} {_one(schedule['folder'])}")
    if schedule["resumes"]:
        table.add_row("resumes", Text(f"from {_one(schedule['resumes'])}", "yellow"))
    file = f" ({_one(schedule['metrics_file'])})" if "file" in schedule["logger"] else ""
    table.add_row("logs", f"metrics to {', '.join(schedule['logger'])}{file}")
    if schedule["episode_log"]:
        table.add_row("", f"episodes to {_one(schedule['episode_log'])}")
    out.print(table)


def _validates(schedule: Json) -> str:
    when = ["before the first step"] if schedule["validate_before"] else []
    if schedule["validate_every"] > 0:
        when.append(f"{_every(schedule['validate_every'])} and at the end")
    if not when:
        return "never"
    num, size = schedule["validations"], schedule["validation_episodes"]
    return f"{', '.join(when)}: {num} × {_n(size)} episodes"


def _every(steps: int) -> str:
    return "every step" if steps == 1 else f"every {steps} steps"


def _verdict(out: Console, refusals: Sequence[str], warnings: Sequence[str]) -> None:
    _rule(out, "what to change")
    for line in refusals:
        _point(out, "refused", line, "red")
    for line in warnings:
        _point(out, "warning", line, "yellow")
    told = counted(len(warnings), "warning")
    if refusals:
        count = counted(len(refusals), "thing")
        out.print(Text(f"this run would be refused for {count}; {told}", "red"))
    else:
        out.print(Text(f"this run can start; {told}", "green"))


def _point(out: Console, mark: str, line: str, style: str) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(Text(mark, style), Text(printable(line)))
    out.print(table)


def _block(out: Console, label: str, text: str, style: str, whole: bool) -> None:
    """A label, and the text below it, from both ends if it is long."""
    out.print(Text(printable(f"{label}:"), "dim"))
    lines = printable(text).split("\n")
    if not whole and len(lines) > HEAD + TAIL + 1:
        left = len(lines) - HEAD - TAIL
        lines = [*lines[:HEAD], f"… {left} lines; --whole shows them …", *lines[-TAIL:]]
    out.print(Padding(Text("\n".join(lines), style), (0, 0, 0, 2)))


def _line(out: Console, label: str, text: str, style: str) -> None:
    out.print(Text.assemble((label, "dim"), (printable(text), style)))


def _rule(out: Console, title: str) -> None:
    out.print()
    out.rule(Text(printable(title), "bold"), align="left")


def _pairs() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _one(value: object) -> str:
    return printable(" ".join(str(value).split()))


def _data(files: object, rows: int) -> str:
    return _one(f"{_files(files)}, {f'{_n(rows)} problems' if rows else 'nothing to be read'}")


def _files(value: object) -> str:
    names = [value] if isinstance(value, str) or value is None else list(value)  # type: ignore[call-overload]
    return ", ".join(map(str, names))


def _n(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")
