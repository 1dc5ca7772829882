"""Small programming tasks that are made up: one formula in whole numbers, in words. For tests and
tiny models.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from rltf_verl.envs.code.sources import Task, Test

NUM_PUBLIC, NUM_PRIVATE = 2, 6
LARGEST = 20
LEAST_DISTINCT = 4
"""Different outputs that the tests of a task have at least: no constant passes them."""


class Operation(NamedTuple):
    """A function of two whole numbers."""

    code: str
    words: str
    apply: Callable[[int, int], int]


OPERATIONS = (
    Operation("({} + {})", "the sum of {} and {}", lambda a, b: a + b),
    Operation("({} - {})", "the difference of {} and {}", lambda a, b: a - b),
    Operation("({} * {})", "the product of {} and {}", lambda a, b: a * b),
    Operation("max({}, {})", "the larger of {} and {}", max),
    Operation("min({}, {})", "the smaller of {} and {}", min),
)


class Formula(NamedTuple):
    """A formula as Python, in words and as a function of the values of its names."""

    code: str
    words: str
    value: Callable[[dict[str, int]], int]


def draw_task(rng: random.Random) -> Task:
    """One task with its tests and its solution."""
    while True:
        names = "abc"[: rng.randint(1, 3)]
        formula = _draw(rng, names, rng.randint(1, 2))
        inputs = _draw_inputs(rng, names)
        if len({formula.value(values) for values in inputs}) >= LEAST_DISTINCT:
            return _task(formula, names, inputs, calls=rng.random() < 0.5)


def _draw(rng: random.Random, names: str, depth: int) -> Formula:
    if depth == 0:
        return _name(rng.choice(names)) if rng.random() < 0.7 else _number(rng.randint(2, 9))
    operation = rng.choice(OPERATIONS)
    left = right = _draw(rng, names, depth - 1)
    while left.code == right.code:
        right = _draw(rng, names, rng.randint(0, depth - 1))
    return Formula(
        operation.code.format(left.code, right.code),
        operation.words.format(_in_brackets(left), _in_brackets(right)),
        lambda values: operation.apply(left.value(values), right.value(values)),
    )


def _name(name: str) -> Formula:
    return Formula(name, name, lambda values: values[name])


def _number(number: int) -> Formula:
    return Formula(str(number), str(number), lambda values: number)


def _in_brackets(formula: Formula) -> str:
    return f"({formula.words})" if " " in formula.words else formula.words


def _draw_inputs(rng: random.Random, names: str) -> list[dict[str, int]]:
    drawn: list[dict[str, int]] = []
    while len(drawn) < NUM_PUBLIC + NUM_PRIVATE:
        values = {name: rng.randint(-LARGEST, LARGEST) for name in names}
        if values not in drawn:
            drawn.append(values)
    return drawn


def _task(formula: Formula, names: str, inputs: list[dict[str, int]], calls: bool) -> Task:
    tests = [_test(values, formula.value(values), calls) for values in inputs]
    commas = ", ".join(names)
    if calls:
        how = f"The function is `solve({commas})`, for whole numbers."
        solution = f"def solve({commas}):\n    return {formula.code}"
    else:
        how = f"The input is one line with the whole numbers {commas}."
        solution = (
            # `a, = map(…)` for one name, which would else be the map itself.
            f"{commas}{',' * (len(names) == 1)} = map(int, input().split())\nprint({formula.code})"
        )
    examples = "\n".join(
        f"For {_equations(values)} it is {formula.value(values)}." for values in inputs[:NUM_PUBLIC]
    )
    statement = f"Compute {formula.words}. {how}\n{examples}"
    public, private = tuple(tests[:NUM_PUBLIC]), tuple(tests[NUM_PUBLIC:])
    return Task(statement, "solve" if calls else None, "", public, private, solution)


def _test(values: dict[str, int], output: int, calls: bool) -> Test:
    given: Any = list(values.values())
    return {
        "input": given if calls else " ".join(map(str, given)) + "\n",
        "accept": [output if calls else str(output)],
    }


def _equations(values: dict[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
