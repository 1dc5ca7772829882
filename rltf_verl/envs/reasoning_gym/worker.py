"""Worker processes of `reasoning_gym`: make items and score answers by the package's code. See
`pool`.

Some scorers pass the answer to `eval`, or to sympy's `parse_expr`, which evaluates it too. Here
`eval` is `ast.literal_eval` in the modules of the former, and the latter see only what
`plain_expression` lets through.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import sys
from fractions import Fraction
from functools import lru_cache
from typing import Any

import reasoning_gym
from reasoning_gym.factory import DATASETS
from sympy.parsing.sympy_parser import parse_expr

from rltf_verl.envs.reasoning_gym.lossless_json import decode, encode
from rltf_verl.texts import split_words

LITERALS = split_words("binary_matrix n_queens number_sorting spiral_matrix string_insertion")
"""Tasks whose scorer evaluates lists that the answer holds."""
EXPRESSIONS = split_words(
    "countdown intermediate_integration polynomial_multiplication puzzle24 simple_integration"
)
"""Tasks whose scorer evaluates expressions."""
EXACT = split_words("game_of_life mini_sudoku rectangle_count time_intervals")
"""Tasks whose partial credit an answer gets that is the same for all problems (an empty board:
0.94).
"""
REFERENCES = {"graph_color": "possible_answer", "rubiks_cube": "example_correct_answer"}
"""Tasks that keep the answer elsewhere: the key of the metadata."""

_NAMES = frozenset(split_words("sqrt sin cos tan asin acos atan sinh cosh tanh exp log ln pi Abs"))
_EXPRESSION = re.compile(r"[A-Za-z0-9\s+\-*/^().,]*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_DIGITS = re.compile(r"[0-9]{1,9}")
_SUM = re.compile(r"[0-9\s+\-*/()]*")

# A module's own name `eval` comes before the builtin.
for _task in LITERALS:
    vars(sys.modules[DATASETS[_task][0].__module__])["eval"] = ast.literal_eval


def names() -> list[str]:
    """The tasks of the installed package."""
    return sorted(DATASETS)


def options(task: str) -> list[str]:
    """The parameters that a task has, beside size and seed."""
    return sorted(
        {field.name for field in dataclasses.fields(DATASETS[task][1])} - {"size", "seed"}
    )


def generate(task: str, params: str, size: int, seed: int, start: int, stop: int) -> list[Any]:
    """Items `start` to `stop` of a dataset: question, reference answer, and the entry for `score`.

    None for an item whose own answer the scorer does not take (an integral that the package could
    not solve).
    """
    dataset = _dataset(task, params, size, seed)
    items = [_item(task, dataset[i]) for i in range(start, stop)]
    return [item if score(task, params, item[2], item[1]) >= 1.0 else None for item in items]


def score(task: str, params: str, entry: Any, answer: str) -> float:
    """The task's own score of an answer, in [0, 1]."""
    if task in EXPRESSIONS and not plain_expression(answer):
        return 0.0
    if not holds(task, decode(entry), answer):
        return 0.0
    dataset = _dataset(task, params, 1, 0)
    try:
        value = float(dataset.score_answer(answer, decode(entry)))
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, SyntaxError):
        # some scorers raise for what they cannot read; with the reference they worked (`generate`)
        return 0.0
    if task in EXACT:
        return float(value >= 1.0)
    return round(min(max(value, 0.0), 1.0), 9)  # of a sum of six sixths as well


def holds(task: str, entry: dict[str, Any], answer: str) -> bool:
    """True if an answer passes checks that its task's scorer lacks, for tasks in which one answer
    would do for all problems.

    >>> holds("complex_arithmetic", {}, "nan"), holds("coin_flip", {"answer": "0.25"}, "0")
    (False, False)
    """
    if task == "complex_arithmetic":  # min(1, exp(-nan)) is 1
        return "nan" not in answer.casefold()
    if task == "coin_flip":  # it takes each beginning of the right number for the whole
        return _close(answer, entry["answer"])
    if task == "puzzle24":  # it takes any four numbers
        return _makes_24(answer, entry["metadata"]["numbers"])
    return True


def _makes_24(expression: str, numbers: list[int]) -> bool:
    """True if a sum makes 24 of these numbers, each once; the task's own scorer rounds 24.9."""
    if _SUM.fullmatch(expression) is None or "**" in expression or "//" in expression:
        return False
    given = sorted(map(int, _DIGITS.findall(expression)))
    try:
        return given == sorted(numbers) and abs(float(parse_expr(expression)) - 24) < 1e-9
    except (ValueError, TypeError, SyntaxError, ArithmeticError, RecursionError, MemoryError):
        return False


def _close(answer: str, wanted: str) -> bool:
    try:
        given, right = Fraction(answer.replace(",", "")), Fraction(wanted)
    except (ValueError, ZeroDivisionError):
        return False
    return abs(given - right) <= min(Fraction(1, 10_000), abs(right) / 100)


def plain_expression(text: str) -> bool:
    """Numbers, operators, single letters and names of elementary functions only.

    >>> [plain_expression(text) for text in ("3*x**2 + sin(x) + C", "x.__class__", "exit()")]
    [True, False, False]
    """
    # `x.__class__`: next to a letter a point is no decimal point.
    dotted = re.search(r"\.\s*[A-Za-z]|[A-Za-z]\s*\.", text)
    names = {name for name in _NAME.findall(text) if len(name) > 1}
    return _EXPRESSION.fullmatch(text) is not None and not dotted and names <= _NAMES


def _item(task: str, entry: dict[str, Any]) -> list[Any]:
    answer = entry["metadata"][REFERENCES[task]] if task in REFERENCES else entry["answer"]
    reference = answer if isinstance(answer, str) else json.dumps(answer)
    return [
        entry["question"],
        reference,
        encode({key: entry[key] for key in ("question", "answer", "metadata")}),
    ]


@lru_cache(maxsize=16)
def _dataset(task: str, params: str, size: int, seed: int) -> Any:
    return reasoning_gym.create_dataset(task, size=size, seed=seed, **json.loads(params))
