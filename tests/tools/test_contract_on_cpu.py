"""`rltf env check`: an environment that keeps its promises passes, each broken promise is found; of
one that grades texts and of one that acts.
"""

import json
import random
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env, Limits, Splits
from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.registry import load
from rltf_verl.tools.contract import check_env
from rltf_verl.types import Action, Grade, Note, Problem, Step, Trajectory
from tests.support.acting import OFFICE
from tests.support.acting_fakes import MuteError

Workspace: Any = load("rltf.env.name", OFFICE)


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


def broken(env: Any) -> list[str]:
    return [
        verdict.promise
        for verdict in check_env(env, num_problems=8, num_hostile=50)
        if verdict.broken
    ]


def splits_of(num: int, data: Callable[[int], Any], reference: str) -> Splits:
    return Splits(tuple(Problem("doubles", i, data(i), reference) for i in range(num)), ())


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
    (
        "nonsense is graded wrong",
        "grade",
        lambda self, problem, text: Grade(
            "know" in text or Doubles.grade(self, problem, text).correct, True
        ),
    ),
    (
        "grades are the same each time",
        "grade",
        lambda self, problem, text: Grade(problem.reference in text, True, str(next(CALLS))),
    ),
    ("50 hostile texts raise nothing", "grade", fragile),
    (
        "below `full` no explanation gives the answer away",
        "explain",
        lambda self, problem, text, grade, level: f"The answer is {problem.reference}.",
    ),
    ("`hint` and `full` say something", "explain", lambda self, problem, text, grade, level: ""),
]


def test_what_raises_is_named_with_problem_and_line() -> None:
    class Raises(Doubles):
        def prompt(self, problem: Problem) -> str:
            return str(1 // (problem.index - 1))

    said = {verdict.promise: verdict.broken for verdict in check_env(Raises(), num_problems=8)}
    error = r"problem 1: ZeroDivisionError: .* \(test_contract_on_cpu.py:\d+\)"
    assert re.fullmatch(error, said["prompts are text, and the same each time"])


@dataclass
class Sum:
    value: int = 0


class Adds:
    """Reach a sum by adding one to three; the model of an acting environment."""

    name = "adds"
    tools: Sequence[Any] = ()
    limits = Limits(step_s=60.0, observation_tokens=8)

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
    limits = Limits(step_s=0.5, observation_tokens=8)

    def step(self, state: Any, action: Action) -> Step:
        if len(action.text) > 1000:
            time.sleep(60)
        return super().step(state, action)


class Leaks(Workspace):
    def explain(
        self, problem: Problem, trajectory: Trajectory, grade: Grade, level: str
    ) -> Sequence[Note]:
        return super().explain(problem, trajectory, grade, "full")


class Stores(Workspace):
    """Encodes arguments, keys too."""

    def step(self, state: Any, action: Action) -> Step:
        json.dumps(dict(action.arguments), ensure_ascii=False).encode()
        return super().step(state, action)


@pytest.mark.parametrize(
    "env",
    [
        Doubles(),
        BinaryMatrix(),
        BinaryMatrix(mode="official", n_max=3),
        Adds(),
        make_env("docs/examples/lookup.py:Lookup"),
        Stores(num_houses=6),  # what the check calls with is what a run calls with
    ],
)
def test_environments_that_keep_their_promises(env: Any) -> None:
    assert broken(env) == []


OPENS = "the same problem and seed open the same world, a new one"
FORKS = "a fork goes on as its state does, and apart from it"
NOTES = "notes are on played steps; `hint` and `full` say something, `full` alone the solution"
HOSTILE = "50 hostile actions neither raise nor hang"


@pytest.mark.parametrize(
    ("env", "promise", "method", "function"),
    [
        *((Doubles, *case) for case in BROKEN),
        (Adds, OPENS, "step", lambda self, state, action: Step(str(random.random()))),
        (
            Adds,
            "observations are texts within limits.observation_tokens",
            "look",
            lambda *_: "word " * 9,
        ),
        (Adds, "the solution is graded correct", "grade", lambda *_: Grade(False, True)),
        (
            Adds,
            "nothing done is graded wrong, and the same each time",
            "grade",
            lambda *_: Grade(True, True),
        ),
        (Adds, NOTES, "explain", lambda *_: [Note("Here.", 1000)]),
        (Adds, NOTES, "explain", lambda *_: []),
    ],
)
def test_a_promise_broken_by_one_method_is_noticed(
    env: type[Any], promise: str, method: str, function: Callable[..., Any]
) -> None:
    assert promise in broken(type("Broken", (env,), {method: function})())


@pytest.mark.parametrize(
    ("env", "promise"),
    [
        (Shares, OPENS),
        (ForksItself, FORKS),
        (Leaks, NOTES),
        (Trusting, HOSTILE),
        (Hangs, HOSTILE),
    ],
)
def test_a_broken_promise_is_noticed(env: type[Any], promise: str) -> None:
    assert promise in broken(env())


METHODS = ("open", "look", "step", "fork", "grade", "explain", "close", "solution")


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
    return lambda: (_ for _ in ()).throw(error)


def test_without_problems_nothing_else_is_held_against_the_environment() -> None:
    (verdict,) = check_env(misbehaving("build", raises(OSError("no such file")), 1))
    assert "no such file" in verdict.broken


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


class Locked(Adds):
    def open(self, problem: Problem, seed: int) -> Any:
        state = super().open(problem, seed)
        state.lock = threading.Lock()
        return state


def test_a_state_that_cannot_be_copied_breaks_no_promise_and_is_named_with_the_fix() -> None:
    verdicts = {v.promise: v for v in check_env(Locked(), num_problems=3, num_hostile=6)}
    assert not [verdict for verdict in verdicts.values() if verdict.broken]
    assert re.match("not tried: .* give the environment a `fork`", verdicts[FORKS].kept)


def test_a_promise_that_was_not_tried_says_so() -> None:
    class Unsolved(Adds):
        solution = Env.solution

    for env, promise in (
        (Unsolved(), "the solution is graded correct"),
        (Doubles(), "no constant answer scores well"),
    ):
        kept = {v.promise: v.kept for v in check_env(env, num_problems=2, num_hostile=4)}
        assert kept[promise].startswith("not tried")
