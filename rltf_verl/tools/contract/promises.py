"""Promises that every environment makes, and how they are tested."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rltf_verl.envs.base import Env
from rltf_verl.registry import raised_by
from rltf_verl.types import Problem

Check = Callable[[list[Problem]], Iterator[str]]
"""Breaches of a promise at these problems."""
NONSENSE = (
    "",
    " ",
    "I do not know.",
    "\\boxed{}",
    "\\boxed{banana}",
    "yes",
    "42 apples",
    "The answer is wrong.",
)


NOT_TRIED = "not tried: "


class NotTriedError(Exception):
    """A promise that cannot be tested; its text says why."""


@dataclass(frozen=True)
class Verdict:
    """One promise."""

    promise: str
    broken: str
    """The breach, with an example; empty if it was kept."""
    kept: str = "yes"
    """The word for a kept promise."""


def builds_again(env: Env, seed: int, num: int, problems: list[Problem]) -> Iterator[str]:
    """Puts the training problems into `problems`, which the other checks are about."""
    first, again = (env.build(seed, num, max(1, num // 10)) for _ in range(2))
    problems.extend(first.train)
    if not (first.train and first.test):
        yield f"build({seed}, {num}, …) made {len(first.train)} and {len(first.test)} problems"
    if first != again:
        yield f"build({seed}, …) twice made different problems"


def verdict_on(env: object, promise: str, check: Callable[[], Iterator[str]]) -> Verdict:
    """The first thing that breaks it, an exception too."""
    try:
        return Verdict(promise, next(check(), ""))
    except NotTriedError as why:
        return Verdict(promise, "", f"{NOT_TRIED}{why}")
    except (Exception, SystemExit) as error:  # what a user's environment raises is the finding
        return Verdict(promise, raised_by(type(env), error))


def for_each_problem(
    env: object, check: Callable[[Problem], Iterator[str]], problems: Sequence[Problem]
) -> Iterator[str]:
    """The breaches at each problem, with its number. Raises NotTriedError if none can be tested."""
    kept = set[str]()
    for problem in problems:
        verdict = verdict_on(env, "", partial(check, problem))
        if verdict.broken:
            yield f"problem {problem.index}: {verdict.broken}"
        kept.add(verdict.kept)
    if kept and Verdict.kept not in kept:
        raise NotTriedError(kept.pop().removeprefix(NOT_TRIED))


def survives_json(problem: Problem) -> Iterator[str]:
    if json.loads(json.dumps(dict(problem.data))) != dict(problem.data):
        yield (
            "its data are other data after json.loads(json.dumps(data)), which is how a dataset"
            " keeps them"
        )


def prompts(env: Env, problem: Problem) -> Iterator[str]:
    if not (env.prompt(problem).strip() and env.prompt(problem) == env.prompt(reread(problem))):
        yield "its prompt is empty, or another one when asked again"


def reread(problem: Problem) -> Problem:
    """The problem as a dataset gives it back."""
    return replace(problem, data=json.loads(json.dumps(dict(problem.data))))


_PIECES = (
    "\\boxed{",
    "}",
    "{",
    "\\text{",
    "\\frac{1}{",
    "[[",
    "]]",
    "[",
    "]",
    "(",
    ")",
    "0",
    "1",
    "-1",
    "9" * 40,
    "1e999",
    "nan",
    "inf",
    "\n",
    "\r\n",
    "\t",
    " ",
    ",",
    ";",
    ":",
    "&",
    "\\\\",
    "$",
    "**",
    "`",
    "```python\n",
    "```",
    "<answer>",
    "</answer>",
    "\x00",
    "\ud7ff",
    "\u202e",
    "٣",
    "½",
    "é",
    "😀",
    "\\begin{pmatrix}",
    "\\end{pmatrix}",
    "%s",
    "{0}",
    "__import__('os')",
    "right",
    "down",
    "knight",
    "infeasible",
    "Answer:",
    "=",
    "<|im_end|>",
    "a" * 200,
)


def hostile_texts(seed: int, num: int) -> Iterator[str]:
    """Texts that parsers stumble over: unbalanced, nested, huge, empty, control characters, digits
    of other scripts.
    """
    rng = random.Random(seed)
    for k in range(num):
        pieces = rng.choices(_PIECES, k=rng.choice((1, 3, 10, 30, 100)))
        text = "".join(pieces)
        yield f"\\boxed{{{text}}}" if k % 3 == 0 else text
