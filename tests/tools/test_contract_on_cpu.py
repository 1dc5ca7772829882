"""`rltf env check`: an environment that keeps its promises passes, and each broken promise is
found.
"""

from __future__ import annotations

from pathlib import Path

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


class Restless(Doubles):
    calls = 0

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        self.calls += 1
        return super().build(self.calls, num_train, num_test)


class Tuples(Doubles):
    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        made = [Problem(self.name, i, {"n": (i,)}, "2") for i in range(num_train)]
        return Splits(tuple(made), tuple(made))


class Strict(Doubles):
    def grade(self, problem: Problem, text: str) -> Grade:
        return Grade(False, True)


class Generous(Doubles):
    def grade(self, problem: Problem, text: str) -> Grade:
        return Grade("know" in text or super().grade(problem, text).correct, True)


class Constant(Doubles):
    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        made = [Problem(self.name, i, {"n": i}, "e") for i in range(num_train + num_test)]
        return Splits(tuple(made[:num_train]), tuple(made[num_train:]))


class Moody(Doubles):
    calls = 0

    def grade(self, problem: Problem, text: str) -> Grade:
        self.calls += 1
        return Grade(super().grade(problem, text).correct, True, str(self.calls))


class Talkative(Doubles):
    def explain(self, problem: Problem, text: str, grade: Grade, level: str) -> str:
        return f"The answer is {problem.reference}."


class Silent(Doubles):
    def explain(self, problem: Problem, text: str, grade: Grade, level: str) -> str:
        return ""


class Fragile(Doubles):
    def grade(self, problem: Problem, text: str) -> Grade:
        return Grade(False, True) if "1e999" in text and int(text) else super().grade(problem, text)


@pytest.mark.parametrize(
    ("env", "promise"),
    [
        (Restless, "build is deterministic"),
        (Tuples, "a problem survives JSON"),
        (Strict, "the reference is graded correct"),
        (Generous, "nonsense is graded wrong"),
        (Moody, "grades are the same each time"),
        (Talkative, "below `full` no explanation gives the answer away"),
        (Silent, "`full` says something"),
        (Constant, "no constant answer scores well"),
        (Fragile, "50 hostile texts raise nothing"),
    ],
)
def test_a_broken_promise_is_found(env: type[Doubles], promise: str) -> None:
    assert promise in broken(env())


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
    assert "level verdict, about" in bad.stdout
    options = rltf("env", "check", "binary_matrix", "n_min=9", "n_max=3")
    assert "rltf.env.n_max=3" in options.stderr
