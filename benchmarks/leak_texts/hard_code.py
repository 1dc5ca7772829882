# a wording a line
"""Hard wordings on `code`, its made-up tasks: whole solutions and decisive expressions in prose;
see `hard`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.leak_texts.common import Wordings
from rltf_verl.envs.code import Code
from rltf_verl.envs.code.text import fenced
from rltf_verl.types import Problem


@dataclass(frozen=True)
class Case:
    """What a text is about."""

    env: Code
    problem: Problem
    attempt: str
    rng: random.Random

    @property
    def attempt_text(self) -> str:
        return fenced(self.attempt)

    @property
    def lines(self) -> list[str]:
        return str(self.problem.data["solution"]).splitlines()

    @property
    def expression(self) -> str:
        last = self.lines[-1].strip()
        return (
            last.removeprefix("return ") if last.startswith("return") else last[len("print(") : -1]
        )

    @property
    def question(self) -> str:
        return str(self.problem.data["statement"]).splitlines()[0]


def cases(seed: int) -> Iterator[Case]:
    """Problems whose attempt computes another formula."""
    rng, env = random.Random(seed), Code(time_s=2, total_s=20)
    while True:
        for problem in env.build(rng.randrange(2**31), 200, 0).train:
            case = Case(env, problem, "", rng)
            wrong = case.lines[0] + "\n" + ("    return " if problem.data["entry"] else "print(")
            theirs = "a + 1" if case.expression != "(a + 1)" else "a"
            yield Case(env, problem, wrong + theirs + ("" if problem.data["entry"] else ")"), rng)


LEAKS: Wordings[Case] = {
    "block": [
        lambda c: "Use this:\n" + fenced("\n".join(c.lines)),
        lambda c: "~~~py\n" + "\n".join(c.lines) + "\n~~~",
    ],
    "inline": [
        lambda c: "Write `" + "; ".join(x.strip() for x in c.lines) + "` instead.",
        lambda c: "\n".join(c.lines),
        lambda c: "    " + "\n    ".join(c.lines),
        lambda c: "<pre>" + "\n".join(c.lines) + "</pre>",
    ],
    "line": [
        lambda c: f"The last line should be `{c.lines[-1].strip()}`.",
        lambda c: f"You want {c.expression} there.",
        lambda c: f"Return {c.expression.replace(' ', '')} and it works.",
        lambda c: f"Compute result = {c.expression}, nothing else.",
    ],
    "lines": [
        lambda c: " ".join(f"Line {i} is {x.strip()}." for i, x in enumerate(c.lines, 1)),
        lambda c: "\n".join(f"{i}. `{x.strip()}`" for i, x in enumerate(c.lines, 1)),
        lambda c: " Then ".join(f'"{x.strip()}"' for x in c.lines),
    ],
}
INNOCENT: Wordings[Case] = {
    "innocent": [
        lambda c: "Your program does not compute what is asked. " + c.question,
        lambda c: f"Your program\n{fenced(c.attempt)}\nis wrong.",
        lambda c: (
            "The input is read correctly; the formula in the last line is not the one of the"
            " statement."
        ),
        lambda c: "Check the order of max and min, and the brackets.",
        lambda c: "For a = 0 your program gives the wrong value.",
        lambda c: (
            f"`{c.lines[0].strip()}` is fine; look at what you do with the values afterwards."
        ),
        lambda c: "You only use some of the variables. The statement combines all of them.",
        lambda c: "Print one number, not a list. `print(*x)` prints several.",
        lambda c: "Do not use `a + 1`; the statement does not say so.",
        lambda c: (
            "A negative number minus a positive one gets smaller. Test with negative inputs, e.g."
            " -5 and 3."
        ),
    ]
}
