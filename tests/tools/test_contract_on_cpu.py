"""`rltf env check`: an environment that keeps its promises passes, and each broken promise is
found.
"""

import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.envs.base import Splits
from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.tools.contract import check_env
from rltf_verl.types import Grade, Problem
from tests.support.commands import rltf


class Doubles:
    """Twice a number; the model of an environment of one's own."""

    name = "doubles"

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        made = [
            Problem(self.name, i, {"n": seed + i}, str(2 * (seed + i)))
            for i in range(1, num_train + num_test + 1)
        ]
        return Splits(tuple(made[:num_train]), tuple(made[num_train:]))

    def prompt(self, problem: Problem) -> str:
        return f"What is twice {problem.data['n']}?"

    def grade(self, problem: Problem, text: str) -> Grade:
        answer = text.rpartition("\\boxed{")[2].partition("}")[0]
        return Grade(answer == problem.reference, bool(answer), answer)

    def explain(self, problem: Problem, text: str, grade: Grade, level: str) -> str:
        return f"The answer is {problem.reference}." if level == "full" else "Wrong."


def broken(env: object) -> list[str]:
    return [
        verdict.promise
        for verdict in check_env(env, num_problems=8, num_hostile=50)
        if verdict.broken
    ]


def test_environments_that_keep_their_promises() -> None:
    assert broken(Doubles()) == []
    assert broken(BinaryMatrix()) == []
    assert broken(BinaryMatrix(mode="official", n_max=3)) == []


class Talkative(Doubles):
    def explain(self, problem: Problem, text: str, grade: Grade, level: str) -> str:
        return f"The answer is {problem.reference}."


def splits_of(num: int, data: Callable[[int], Any], reference: str) -> Splits:
    return Splits(tuple(Problem("doubles", i, data(i), reference) for i in range(num)), ())


def generous(self: Doubles, problem: Problem, text: str) -> Grade:
    return Grade("know" in text or Doubles.grade(self, problem, text).correct, True)


def fragile(self: Doubles, problem: Problem, text: str) -> Grade:
    if "1e999" in text and int(text):
        return Grade(False, True)
    return Doubles.grade(self, problem, text)


CALLS = count()
BROKEN: list[tuple[str, str, Callable[..., Any]]] = [
    (
        "build is deterministic",
        "build",
        lambda self, seed, train, test: Doubles.build(self, next(CALLS), train, test),
    ),
    (
        "a problem survives JSON",
        "build",
        lambda self, seed, train, test: splits_of(train, lambda i: {"n": (i,)}, "2"),
    ),
    (
        "no constant answer scores well",
        "build",
        lambda self, seed, train, test: splits_of(train, lambda i: {"n": i}, "e"),
    ),
    (
        "the reference is graded correct",
        "grade",
        lambda self, problem, text: Grade(False, True),
    ),
    ("nonsense is graded wrong", "grade", generous),
    (
        "grades are the same each time",
        "grade",
        lambda self, problem, text: Grade(problem.reference in text, True, str(next(CALLS))),
    ),
    ("50 hostile texts raise nothing", "grade", fragile),
    ("below `full` no explanation gives the answer away", "explain", Talkative.explain),
    ("`full` says something", "explain", lambda self, problem, text, grade, level: ""),
]


@pytest.mark.parametrize(("promise", "method", "function"), BROKEN)
def test_a_broken_promise_is_found(promise: str, method: str, function: Callable[..., Any]) -> None:
    assert promise in broken(type("Broken", (Doubles,), {method: function})())


def test_what_raises_is_named_with_problem_and_line() -> None:
    class Raises(Doubles):
        def prompt(self, problem: Problem) -> str:
            return str(1 // (problem.index - 1))

    said = {verdict.promise: verdict.broken for verdict in check_env(Raises(), num_problems=8)}
    error = r"problem 1: ZeroDivisionError: .* \(test_contract_on_cpu.py:\d+\)"
    assert re.fullmatch(error, said["prompts are text, and the same each time"])


def test_the_command_checks_a_file_of_ones_own(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_contract_on_cpu import Doubles, Talkative\n"
    )
    good = rltf("env", "check", f"{mine}:Doubles", "--num", "4", "--hostile", "20")
    bad = rltf("env", "check", f"{mine}:Talkative", "--num", "4", columns=200)
    assert (good.exit_code, bad.exit_code) == (0, 1), good.output + bad.output
    assert "template critique" in good.output
    assert "Your Previous Solution:" in good.output
    assert "level verdict, problem 1" in bad.stdout
    options = rltf("env", "check", "binary_matrix", "n_min=9", "n_max=3")
    assert "rltf.env.n_max=3" in options.stderr
