"""The warm-up's dialogues: work in houses whose rules no trained house has.

    python recipes/agents/dialogues.py OUT.parquet [--num 1024] [--seed ROUND]

Every dialogue has a rule of its own. Some are a first attempt, in a rule that the prompt does not
tell: the policy learns to call tools. The others follow feedback on a wrong attempt, behind all of
it or in its middle (`rltf.episode.retry=fork`): the policy learns to follow a hint.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from office import Workspace
from orders import EXAMPLE, practice_form, written

from rltf_verl.data.provenance import write_table
from rltf_verl.envs.calls import notes_text
from rltf_verl.episode.acting import trajectory_text
from rltf_verl.prompts import render
from rltf_verl.types import Action, PlayedStep, Problem, Trajectory

FIRST_ATTEMPTS = (0.4, 0.1)
"""Share of the dialogues without feedback in the first round, and in the later ones."""
RETRIES = 0.2
"""Share of the dialogues with feedback in the middle."""
DONE = "Done."
Message = dict[str, str]


def dialogues(num: int, seed: int) -> Iterator[dict[str, Any]]:
    """Rows as verl's SFT trainer reads them."""
    rng = random.Random(seed)
    env = Workspace(conventions="practice", house=10_000 * seed, num_houses=3 * num)
    problems = env.build(seed, 3 * num, 0).train
    if seed:  # the rule is what is left to learn: two of three dialogues are about nothing else
        problems = [p for p in problems if len(p.data["orders"]) == 1 or rng.random() < 0.25]
    tools = json.loads(json.dumps(env.tools))
    first = FIRST_ATTEMPTS[min(seed, 1)]
    for problem in problems[:num]:
        yield {"messages": _dialogue(rng, env, problem, first), "tools": tools}


def _dialogue(rng: random.Random, env: Workspace, problem: Problem, first: float) -> list[Message]:
    question, kind = env.prompt(problem), rng.random()
    right = played(env, problem, env.solution(problem))
    if kind < first:
        return [_user(question), *_messages(right.steps)]
    wrong = played(env, problem, _wrong(rng, env, problem))
    notes = env.explain(problem, wrong, env.grade(problem, wrong), "hint")
    criticised = min((note.step for note in notes if note.step is not None), default=0)
    if kind < first + RETRIES and criticised > 0 and _same(wrong, right, criticised):
        text = notes_text([note for note in notes if note.step in (None, criticised)])
        before = [*_messages(right.steps[:criticised]), _user(text)]
        return [_user(question), *before, *_messages(right.steps[criticised:])]
    feedback = notes_text(notes)
    revised = render(
        "revise/note", question=question, attempt=trajectory_text(wrong), feedback=feedback
    )
    return [_user(revised), *_messages(right.steps)]


def _same(one: Trajectory, other: Trajectory, num: int) -> bool:
    """Their first steps are the same."""
    return [s.actions for s in one.steps[:num]] == [s.actions for s in other.steps[:num]]


def played(env: Workspace, problem: Problem, actions: Sequence[Action]) -> Trajectory:
    """The trajectory of these calls, one a step, and of a last answer without one."""
    state = env.open(problem, 0)
    steps = [
        PlayedStep(_call(action), (action,), (env.step(state, action),), 0, 0) for action in actions
    ]
    return Trajectory((*steps, PlayedStep(DONE, (), (), 0, 0)), "answered", state)


def _call(action: Action) -> str:
    call = json.dumps(
        {"name": action.tool, "arguments": dict(action.arguments)}, ensure_ascii=False
    )
    return f"<tool_call>{call}</tool_call>"


def _messages(steps: Sequence[PlayedStep]) -> list[Message]:
    messages: list[Message] = []
    for step in steps:
        messages.append({"role": "assistant", "content": step.text})
        messages += [{"role": "tool", "content": result.observation} for result in step.results]
    return messages


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _wrong(rng: random.Random, env: Workspace, problem: Problem) -> list[Action]:
    """Calls that break the rule."""
    actions: list[Action] = []
    for order in problem.data["orders"]:
        calls = [Action("", tool, arguments) for tool, arguments in order["calls"]]
        actions += _broken(rng, problem, order["text"], calls) if order["ruled"] else calls
    return actions if actions != env.solution(problem) else _wrong(rng, env, problem)


def _broken(
    rng: random.Random, problem: Problem, order: str, calls: Sequence[Action]
) -> list[Action]:
    """As if there were no rule, in another form, or with another field of the record."""
    read, ruled, *rest = calls
    rule = problem.data["rule"]
    key = list(ruled.arguments)[-1]
    quoted = re.search(r'"(\w+)"', order)
    given = {"close": "", "archive": "archive"}.get(rule["kind"]) or (quoted[1] if quoted else "")
    way = rng.random()
    if way < 0.3:
        return [_with(ruled, key, given)] if given else list(rest)
    form = practice_form(rng, rule["kind"])
    changed = rule | ({"form": form} if way < 0.65 else {"field": rng.choice(list(EXAMPLE))})
    record = problem.data["records"][read.arguments["name"]]
    return [read, _with(ruled, key, written(changed, record, given)), *rest]


def _with(call: Action, key: str, value: str) -> Action:
    return replace(call, arguments={**call.arguments, key: value})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--num", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows = list(dialogues(args.num, args.seed))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write_table(pa.Table.from_pylist(rows), args.out, vars(args) | {"out": args.out.name})
    print(f"{args.out}: {len(rows)} dialogues")


if __name__ == "__main__":
    main()
