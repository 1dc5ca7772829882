"""A run's plan in a terminal: what happens to a problem, how much, how often, what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rltf_verl.texts import counted, printable
from rltf_verl.tools.report.row_words import ENDS, TRAINS
from rltf_verl.tools.report.terminal.console import say, show_steps

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
    _pairs(out, (("memory", line) for line in plan["memory"]))
    _verdict(out, plan["refusals"], plan["warnings"])


def _run(out: Console, run: Json) -> None:
    _rule(out, f"run {run['name']}")
    rows: dict[str, object] = {
        "model": run["model"],
        "devices": run["devices"],
        "train": _data(run["train_files"], run["train_rows"]),
        "validate": _data(run["val_files"], run["val_rows"]),
        "limits": (
            f"{run['max_prompt_length']} tokens a prompt, {run['max_response_length']} an answer"
        ),
    }
    if "turns" in run:
        chat = ", one growing chat" if run["context"] == "append" else ""
        later = f"{chat}, later prompts by template {run['revise']}"
        turns = f"up to {run['turns']} answers{later}" if run["turns"] > 1 else "one answer"
        rows |= {
            "environment": run["environment"],
            "feedback": f"{run['feedback']}; leak guard {run['guard']}",
            "an episode": f"{turns}; {counted(run['episodes_per_problem'], 'episode')} a problem",
            "teacher": run["teacher"] and _teacher(run["teacher"]),
        }
    _pairs(out, [*rows.items(), *(("trains", _objective(o)) for o in run.get("trains", ()))])


def _objective(objective: Json) -> str:
    what = WHAT.get(objective["objective"], "")
    return f"{objective['objective']} × {objective['weight']}: {what}".rstrip(": ")


def _teacher(teacher: Json) -> str:
    which = {"first": "first answers", "last": "last answers", "all": "answers"}[teacher["turns"]]
    only = "" if teacher["right"] else " that are wrong"
    reads = ", ".join(teacher["reads"])
    return _one_line(f"of {which}{only}; reads {reads}, by template {teacher['template']}")


def _problem(out: Console, problem: Json, run: Json, whole: bool, *, brief: bool) -> None:
    """One episode; `brief` leaves out what differs in the question alone."""
    _rule(out, f"problem {problem['index']}" + (", in brief" if brief else ""))
    right = problem["right"]
    if right is not None:
        _block(out, f"a right answer ({right['form']})", right["text"], "green", whole)
    elif problem["reference"].strip():
        tried = "" if "steps" in problem["turns"][0] else ", graded wrong as written"
        _block(out, f"reference{tried}", problem["reference"], "yellow", whole)
    for k, turn in enumerate(problem["turns"][:1] if brief else problem["turns"], start=1):
        name = "first prompt" if k == 1 else f"prompt {k}, after feedback"
        _block(out, f"{name} ({turn['prompt_tokens']} tokens)", turn["prompt"], "", whole)
        if "steps" in turn:
            show_steps(out, f"attempt {k}, for example:", turn, turn["notes"])
        else:
            _block(out, f"answer {k}, for example", turn["answer"], "bold", whole)
        _grade(out, turn)
        if turn["feedback"] is not None:
            what = "feedback that the leak guard withholds" if turn["withheld"] else "feedback"
            instead = _placeholder(run) if turn["placeholder"] else ""
            _block(out, f"{what} [{turn['provider']}]{instead}", turn["feedback"], "cyan", whole)
        if turn["leak"]:
            say(out, "  tells the answer: ", turn["leak"], "red")
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
    read = "" if turn["parsed"] is None else f", read as {_one_line(turn['parsed'])}"
    verdict = ("right" if turn["correct"] else "wrong") + read
    if turn["stop"] == "ungraded":
        verdict = "not graded"
    broken = f"; the grader failed: {turn['grader_error']}" if turn["grader_error"] else ""
    end = f"; ends here: {ENDS.get(turn['stop'], turn['stop'])}" if turn["stop"] else ""
    style = "green" if turn["correct"] else "red"
    say(out, "  grade ", f"{verdict}, reward {turn['reward']:g}{broken}{end}", style)


def _rows(out: Console, problem: Json) -> None:
    _rule(out, f"rows that this episode of problem {problem['index']} trains")
    for k, row in enumerate(problem["rows"], start=1):
        out.print(Text(f"{k}  {printable(row['title'])}", "bold"))
        # a row has a part per turn, and most of them say the same
        for part in dict.fromkeys((p["role"], p["advantage"]) for p in row["parts"]):
            out.print(Padding(Text(f"{part[0]}: advantage = {part[1]}"), (0, 0, 0, 3)))


def _step(out: Console, step: Json, lengths: Json | None, run: Json) -> None:
    _rule(out, "each training step")
    fewest, most, price = step["fewest_rows"], step["most_rows"], step["most_judge_price"]
    problems, n = counted(step["problems"], "problem"), run["episodes_per_problem"]
    rows: dict[str, object] = {
        "episodes": f"{problems} × {n} = {_n(step['episodes'])}",
        "answers": f"at most {_n(step['most_answers'])}",
    }
    if most is not None:
        few = "" if fewest == most else f"{_n(fewest)} (all solved at once) to "
        rows |= {
            "rows": f"{few}{_n(most)}",
            "tokens": (
                f"at most {_n(step['most_sampled_tokens'])} sampled,"
                f" {_n(step['most_trained_tokens'])} in rows"
            ),
        }
    if step["most_judge_calls"]:
        cost = f", at most {price:,.2f} by rltf.feedback.price" if price else ""
        rows["judge calls"] = f"at most {_n(step['most_judge_calls'])}{cost}"
    rows["updates"] = f"{step['optimiser_updates']} of the optimiser"
    if lengths is not None:
        rows["first prompts"] = (
            f"{lengths['median']:g} tokens in the median, {lengths['longest']} at most"
            f" ({lengths['num']} looked at)"
        )
    _pairs(out, rows.items())


def _schedule(out: Console, schedule: Json) -> None:
    _rule(out, "the whole run")
    steps, every = schedule["steps"], schedule["save_every"]
    saved = f"{_every(every)} and at the end, in" if every > 0 else "never; folder"
    resumes, log = schedule["resumes"], schedule["episode_log"]
    file = f" ({schedule['metrics_file']})" if "file" in schedule["logger"] else ""
    an_epoch = f" ({_n(schedule['steps_per_epoch'])} an epoch)"
    rows: dict[str, object] = {
        "steps": _n(steps) + an_epoch if steps else "not known",
        "validates": _validates(schedule),
        "saves": f"{saved} {schedule['folder']}",
        "resumes": resumes and Text(f"from {_one_line(resumes)}", "yellow"),
        "logs": f"metrics to {', '.join(schedule['logger'])}{file}",
        "": log and f"episodes to {log}",
    }
    _pairs(out, rows.items())


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
    _pairs(out, [("refused", Text(printable(line), "red")) for line in refusals])
    _pairs(out, [("warning", Text(printable(line), "yellow")) for line in warnings])
    count = counted(len(warnings), "warning")
    if refusals:
        things = counted(len(refusals), "thing")
        out.print(Text(f"this run would be refused for {things}; {count}", "red"))
    else:
        out.print(Text(f"this run can start; {count}", "green"))


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


def _pairs(out: Console, rows: Iterable[tuple[str, object]]) -> None:
    """Print a line per label and value; none for an empty value."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for label, value in rows:
        if value:
            grid.add_row(label, value if isinstance(value, Text) else _one_line(value))
    out.print(grid)


def _one_line(value: object) -> str:
    return printable(" ".join(str(value).split()))


def _data(files: Sequence[str], rows: int) -> str:
    return _one_line(
        f"{', '.join(files)}, {f'{_n(rows)} problems' if rows else 'nothing to be read'}"
    )


def _n(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")
