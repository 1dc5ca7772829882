"""`rltf env check` on acting environments: each broken promise is noticed."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from rltf_verl.envs.base import Limits, Splits
from rltf_verl.envs.workspace import Workspace
from rltf_verl.tools.contract import check_env
from rltf_verl.types import Action, Grade, Note, Problem, Step, Trajectory
from tests.support.commands import rltf


@dataclass
class Sum:
    value: int = 0


class Adds:
    """Reach a sum by adding one to three; the model of an acting environment."""

    name = "adds"
    tools: Sequence[Any] = ()
    limits = Limits(step_s=0.5, observation_tokens=8)

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        made = [Problem(self.name, i, {"n": 5 + i}, "") for i in range(num_train + num_test)]
        return Splits(tuple(made[:num_train]), tuple(made[num_train:]))

    def prompt(self, problem: Problem) -> str:
        return f"Reach {problem.data['n']} by steps of 1 to 3."

    def open(self, problem: Problem, seed: int) -> Any:
        return Sum()

    def look(self, state: Any) -> str | None:
        return "0"

    def step(self, state: Any, action: Action) -> Step:
        if action.text not in ("1", "2", "3"):
            return Step("1, 2 or 3", kind="error")
        state.value += int(action.text)
        return Step(str(state.value))

    def close(self, state: Any) -> None:
        del state.value  # a closed state is of no more use

    def grade(self, problem: Problem, trajectory: Trajectory) -> Grade:
        return Grade(trajectory.state.value == problem.data["n"], True)

    def explain(
        self, problem: Problem, trajectory: Trajectory, grade: Grade, level: str
    ) -> Sequence[Note]:
        return [Note("Not there yet.")]

    def solution(self, problem: Problem) -> Sequence[Action]:
        return [Action("1")] * problem.data["n"]


class Shares(Adds):
    """One state for all attempts."""

    state = Sum()

    def open(self, problem: Problem, seed: int) -> Any:
        self.state.value = 0
        return self.state

    def close(self, state: Any) -> None:
        pass


class Random(Adds):
    def step(self, state: Any, action: Action) -> Step:
        return Step(str(random.random()))


class ForksItself(Adds):
    def fork(self, state: Any) -> Any:
        return state

    def close(self, state: Any) -> None:
        pass


class Floods(Adds):
    def look(self, state: Any) -> str | None:
        return "word " * 9


class Strict(Adds):
    def grade(self, problem: Problem, trajectory: Trajectory) -> Grade:
        return Grade(False, True)


class Generous(Adds):
    def grade(self, problem: Problem, trajectory: Trajectory) -> Grade:
        return Grade(True, True)


class Elsewhere(Adds):
    def explain(
        self, problem: Problem, trajectory: Trajectory, grade: Grade, level: str
    ) -> Sequence[Note]:
        return [Note("Here.", 1000)]


class Silent(Adds):
    def explain(
        self, problem: Problem, trajectory: Trajectory, grade: Grade, level: str
    ) -> Sequence[Note]:
        return []


class Trusting(Adds):
    def step(self, state: Any, action: Action) -> Step:
        action.text.encode()
        return super().step(state, action)


class Hangs(Adds):
    def step(self, state: Any, action: Action) -> Step:
        if len(action.text) > 1000:
            time.sleep(60)
        return super().step(state, action)


class Leaks(Workspace):
    def explain(
        self, problem: Problem, trajectory: Trajectory, grade: Grade, level: str
    ) -> Sequence[Note]:
        return super().explain(problem, trajectory, grade, "full")


def broken(env: Any) -> list[str]:
    verdicts = check_env(env, num_problems=6, num_hostile=60)
    return [verdict.promise for verdict in verdicts if verdict.broken]


@pytest.mark.parametrize("env", [Adds(), Workspace(num_houses=6)])
def test_environments_that_keep_their_promises(env: Any) -> None:
    assert broken(env) == []


@pytest.mark.parametrize(
    ("env", "promise"),
    [
        (Random, "the same problem and seed open the same world, a new one"),
        (Shares, "the same problem and seed open the same world, a new one"),
        (ForksItself, "a fork goes on as its state does, and apart from it"),
        (Floods, "observations are texts within limits.observation_tokens"),
        (Strict, "the solution is graded correct, and nothing done wrong"),
        (Generous, "the solution is graded correct, and nothing done wrong"),
        (Leaks, "notes are on played steps; `full` says something, no other the solution"),
        (Elsewhere, "notes are on played steps; `full` says something, no other the solution"),
        (Silent, "notes are on played steps; `full` says something, no other the solution"),
        (Trusting, "60 hostile actions neither raise nor hang"),
        (Hangs, "60 hostile actions neither raise nor hang"),
    ],
)
def test_a_broken_promise_is_noticed(env: type[Any], promise: str) -> None:
    assert promise in broken(env())


def test_the_commands_know_acting_environments() -> None:
    check = rltf("env", "check", "workspace", "--num", "4", "--hostile", "20")
    assert check.exit_code == 0, check.output
    show = rltf("env", "show", "workspace")
    assert "A right step, and what comes back:" in show.stdout
    assert "close_ticket" in show.stdout
