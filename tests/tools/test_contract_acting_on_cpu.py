"""`rltf env check` on acting environments: each broken promise is noticed."""

import json
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from rltf_verl.envs.base import Env, Limits, Splits
from rltf_verl.envs.workspace.env import Workspace
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


class ForksItself(Adds):
    def fork(self, state: Any) -> Any:
        return state

    def close(self, state: Any) -> None:
        pass


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


OPENS = "the same problem and seed open the same world, a new one"
NOTES = "notes are on played steps; `full` says something, no other the solution"
HOSTILE = "60 hostile actions neither raise nor hang"


@pytest.mark.parametrize(
    ("promise", "method", "function"),
    [
        (OPENS, "step", lambda self, state, action: Step(str(random.random()))),
        ("observations are texts within limits.observation_tokens", "look", lambda *_: "word " * 9),
        ("the solution is graded correct", "grade", lambda *_: Grade(False, True)),
        (
            "nothing done is graded wrong, and the same each time",
            "grade",
            lambda *_: Grade(True, True),
        ),
        (NOTES, "explain", lambda *_: [Note("Here.", 1000)]),
        (NOTES, "explain", lambda *_: []),
    ],
)
def test_a_promise_broken_by_one_method_is_noticed(
    promise: str, method: str, function: Callable[..., Any]
) -> None:
    assert promise in broken(type("Broken", (Adds,), {method: function})())


@pytest.mark.parametrize(
    ("env", "promise"),
    [
        (Shares, OPENS),
        (ForksItself, "a fork goes on as its state does, and apart from it"),
        (Leaks, NOTES),
        (Trusting, HOSTILE),
        (Hangs, HOSTILE),
    ],
)
def test_a_broken_promise_is_noticed(env: type[Any], promise: str) -> None:
    assert promise in broken(env())


METHODS = ("open", "look", "step", "fork", "grade", "explain", "close", "solution")


class MuteError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def misbehaving(method: str, misbehave: Callable[[], Any], at: int, **limits: float) -> Adds:
    """Does so in this call of the method."""

    class Misbehaves(Adds):
        def fork(self, state: Any) -> Any:
            return Sum(state.value)

    env, calls = Misbehaves(), count(1)
    env.limits = Limits(observation_tokens=8, **limits)
    own = getattr(env, method)
    setattr(env, method, lambda *args: misbehave() if next(calls) == at else own(*args))
    return env


def findings(env: Any) -> list[str]:
    return [v.broken for v in check_env(env, num_problems=3, num_hostile=6) if v.broken]


def raises(error: BaseException) -> Callable[[], Any]:
    def misbehave() -> Any:
        raise error

    return misbehave


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("method", METHODS)
def test_whatever_a_method_raises_is_reported(method: str, at: int) -> None:
    for error in (ZeroDivisionError(), SystemExit(3), KeyboardInterrupt(), MuteError()):
        name = type(error).__name__
        found = findings(misbehaving(method, raises(error), at, step_s=300.0))
        assert any(name in broken for broken in found), name


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_never_returns_is_reported(method: str) -> None:
    forever = threading.Event()
    env = misbehaving(method, lambda: forever.wait(600), 2, step_s=1.5, attempt_s=1.5)
    found = findings(env)
    forever.set()
    assert any(f"{method} does not return" in broken for broken in found)


class Database(Adds):
    """A connection that belongs to the thread which opened it."""

    def open(self, problem: Problem, seed: int) -> Any:
        return sqlite3.connect(":memory:")

    def step(self, state: Any, action: Action) -> Step:
        return Step(str(state.execute("select 1").fetchone()))

    def fork(self, state: Any) -> Any:
        return state

    def close(self, state: Any) -> None:
        pass


def test_states_that_belong_to_a_thread_are_found() -> None:
    assert any("thread" in broken for broken in findings(Database()))


class Locked(Adds):
    def open(self, problem: Problem, seed: int) -> Any:
        state = super().open(problem, seed)
        state.lock = threading.Lock()
        return state


def test_a_state_that_cannot_be_copied_is_named_with_the_fix() -> None:
    assert any("give the environment a `fork`" in broken for broken in findings(Locked()))


def test_a_promise_that_was_not_tried_says_so() -> None:
    class Unsolved(Adds):
        solution = Env.solution

    kept = {v.promise: v.kept for v in check_env(Unsolved(), num_problems=2, num_hostile=4)}
    assert kept["the solution is graded correct"].startswith("not tried")


class Stores(Workspace):
    """Puts arguments into a database, keys too."""

    def step(self, state: Any, action: Action) -> Step:
        with closing(sqlite3.connect(":memory:")) as base:
            for one in json.dumps(dict(action.arguments), ensure_ascii=False).split('"'):
                base.execute("select ?", (one,)).fetchone()
        return super().step(state, action)


def test_arguments_of_the_check_are_those_of_a_run() -> None:
    assert broken(Stores(num_houses=6)) == []


def test_the_commands_know_acting_environments() -> None:
    check = rltf("env", "check", "workspace", "--num", "4", "--hostile", "20")
    assert check.exit_code == 0, check.output
    show = rltf("env", "show", "workspace")
    assert "A right step, and what comes back:" in show.stdout
    assert "close_ticket" in show.stdout
    assert "`level=hint`" in show.stdout
