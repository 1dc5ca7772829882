"""A small set of feedback texts on `code`, where the guard runs every program of a text: 22 blocks
in all.

`direct` holds a whole right program in a block, `paraphrased` the same without one, `partial` its
decisive line; `innocent` quotes the attempt, other programs, inputs and outputs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.leak_texts.common import Labelled
from rltf_verl.envs.code.text import fenced
from rltf_verl.types import Problem

NUM = {"direct": 12, "paraphrased": 6, "partial": 6, "innocent": 20}


@dataclass(frozen=True)
class Task:
    """A problem with its solution, the same otherwise written, and a wrong program."""

    statement: str
    solution: str
    other: str
    wrong: str
    line: str
    tests: tuple[tuple[str, str], ...]


TASKS = (
    Task(
        "Read a whole number and print its double.",
        "n = int(input())\nprint(2 * n)",
        "print(int(input()) * 2)",
        "print(2 * input())",
        "print(2 * n)",
        (("4", "8"), ("-3", "-6"), ("0", "0")),
    ),
    Task(
        "Read whole numbers from one line and print the largest.",
        "numbers = [int(word) for word in input().split()]\nprint(max(numbers))",
        "best = None\nfor word in input().split():\n    if best is None or int(word) > best:\n"
        "        best = int(word)\nprint(best)",
        "print(max(input().split()))",
        "max(int(word) for word in input().split())",
        (("3 20 5", "20"), ("-4 -9", "-4"), ("7", "7")),
    ),
    Task(
        "Read a word and print it backwards.",
        "word = input().strip()\nprint(word[::-1])",
        "print(''.join(reversed(input().strip())))",
        "print(input()[:-1])",
        "word[::-1]",
        (("abc", "cba"), ("x", "x"), ("level up", "pu level")),
    ),
)


def labelled_texts(seed: int, num: Mapping[str, int]) -> Iterator[Labelled]:
    """`num` texts of each kind; kinds without wordings give none."""
    rng = random.Random(seed)
    for kind, wanted in num.items():
        seen: set[str] = set()
        while len(seen) < wanted:
            task = rng.choice(TASKS)
            text = (
                rng.choice(_WORDINGS[kind])
                .replace("{wrong}", fenced(task.wrong))
                .replace("{line}", task.line)
            )
            text = text.replace("{right}", fenced(rng.choice((task.solution, task.other))))
            text = text.replace("{plain}", task.solution).replace("{statement}", task.statement)
            text = text.replace("{in}", task.tests[0][0]).replace("{out}", task.tests[0][1])
            if text not in seen:
                seen.add(text)
                yield Labelled(kind, _problem(task), fenced(task.wrong), text)


_WORDINGS = {
    "direct": (
        "{right}",
        "Your program is wrong. A correct one is:\n{right}",
        "Compare yours\n{wrong}\nwith this:\n\n{right}",
        "Try:\n{right}\nIt handles every input.",
        "**Solution**\n{right}",
    ),
    "paraphrased": ("Write\n\n    {plain}", "The whole program is\n{plain}", "Reference: {plain}"),
    "partial": (
        "You need `{line}` there.",
        "Replace the last line by {line}.",
        "The key is `{line}`.",
    ),
    "innocent": (
        "Your program\n{wrong}\nfails on the input {in}.",
        "On {in} your program does not print {out}.",
        "Read the task again: {statement}",
        "Expected {out} for the input {in}; look at the types.",
        "The input is text until you convert it. Test with `{in}`.",
        (
            "For example, this prints a sum:\n"
            "```python\nprint(sum([1, 2, 3]))\n```\nYours does not do what is asked: {statement}"
        ),
        "Input:\n```\n{in}\n```\nOutput should be:\n```\n{out}\n```",
        "A loop is not needed. {statement}",
    ),
}


def _problem(task: Task) -> Problem:
    tests = [{"input": f"{given}\n", "accept": [f"{wanted}\n"]} for given, wanted in task.tests]
    data = {
        "statement": task.statement,
        "entry": None,
        "starter": "",
        "public": tests[:1],
        "private": tests[1:],
        "solution": task.solution,
    }
    return Problem("code", 0, data, fenced(task.solution))
