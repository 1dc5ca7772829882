"""Tasks of the Berkeley Function Calling Leaderboard (multi-turn, base) on its stateful classes.

    pip install --no-deps bfcl-eval mpmath
    rltf data build ./bfcl.py:Bfcl "classes=[GorillaFileSystem]" --num-train 10 --num-test 3 --out data/bfcl
    rltf/env=own rltf.env.name=./bfcl.py:Bfcl

Its classes and data work without what the package depends on. Its executor is not used, which evaluates what a model wrote
and keeps states by task. One prompt has all of a task's requests, so scores are not those of the leaderboard.
"""

from __future__ import annotations

import ast
import copy
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module, resources
from inspect import signature
from typing import Annotated, Any

from rltf_verl.envs.base import (
    Env,
    FeedbackLevel,
    Limits,
    Splits,
    number_problems,
    require_counts,
    split_items,
    verdict,
)
from rltf_verl.kinds import Within
from rltf_verl.registry import require_choice, require_package
from rltf_verl.types import Action, Grade, Note, Problem, Step, Trajectory

SOURCES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "VehicleControlAPI": "vehicle_control",
}
"""Class -> its module and the file of its documentation."""
PACKAGE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
TASKS = "BFCL_v4_multi_turn_base.json"
MOST_DIGITS = 1000
"""Larger powers and precisions would hold up the whole process."""
TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}


@dataclass
class Apis:
    """The state of one attempt."""

    instances: dict[str, Any]
    results: list[str] = field(default_factory=list)


class Bfcl(Env):
    """`Problem.data` holds `requests`, `config`, `classes` and `calls`.

    A score is the share of right parts: of the attributes that were to change or did, and of the
    results that the reference calls have.

    Args:
        classes: the tools are their methods; tasks that need others are left out.
        steps: most answers of an attempt.
        observation_tokens: most tokens of an observation.

    Raises:
        ValueError: an option has a value it cannot have; names the config key.
    """

    name = "bfcl"

    def __init__(
        self,
        classes: Sequence[str] = ("GorillaFileSystem",),
        steps: Annotated[int, Within(1, 10_000)] = 20,
        observation_tokens: Annotated[int, Within(1, 1_000_000)] = 256,
    ) -> None:
        for name in classes:
            require_choice("rltf.env.classes", name, SOURCES)
        require_package("./bfcl.py:Bfcl", "bfcl_eval", "--no-deps bfcl-eval mpmath")
        self.limits = Limits(steps, step_s=5, attempt_s=60, observation_tokens=observation_tokens)
        self._classes: dict[str, type] = {}
        self._owners: dict[str, str] = {}
        self.tools: list[Mapping[str, Any]] = []
        for name in classes:
            self._classes[name] = getattr(import_module(f"{PACKAGE}.{SOURCES[name]}"), name)
            for row in _rows("multi_turn_func_doc", f"{SOURCES[name]}.json"):
                self._owners[row["name"]] = name
                function = {key: row[key] for key in ("name", "description", "parameters")}
                self.tools.append({"type": "function", "function": _as_openai(function)})

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """The tasks that need these classes only, in a random order; the first ones are the test
        split.

        Raises:
            ValueError: a negative number, or too few tasks.
        """
        require_counts(num_train, num_test)
        calls = {row["id"]: row["ground_truth"] for row in _rows("possible_answer", TASKS)}
        tasks = [
            task for task in _rows(TASKS) if self._classes.keys() >= {*task["involved_classes"]}
        ]
        random.Random(seed).shuffle(tasks)
        key = f"rltf.env.classes={[*self._classes]}"
        train, test = split_items(key, "tasks", tasks, num_train, num_test)

        def problem(index: int, task: Mapping[str, Any]) -> Problem:
            return self._problem(index, task, calls[task["id"]])

        return number_problems(problem, train, test)

    def prompt(self, problem: Problem) -> str:
        """All requests of the task."""
        requests = problem.data["requests"]
        return "\n".join(f"{number}. {text}" for number, text in enumerate(requests, start=1))

    def open(self, problem: Problem, seed: int) -> Apis:
        """New instances, as the task wants them, whatever the seed."""
        instances = {name: self._classes[name]() for name in problem.data["classes"]}
        for name, instance in instances.items():
            if name != "MathAPI":  # it has no state
                instance._load_scenario(copy.deepcopy(problem.data["config"].get(name, {})))
        return Apis(instances)

    def step(self, state: Apis, action: Action) -> Step:
        """Call the method. Its exception is an observation."""
        instance = state.instances.get(self._owners.get(action.tool or "", ""))
        if instance is None:
            return Step("There is no such tool in this task.", kind="error")
        arguments = copy.deepcopy(dict(action.arguments))  # post_tweet changes what it gets
        digits = [arguments.get(name) for name in ("precision", "exponent")]
        if any(isinstance(number, int) and abs(number) > MOST_DIGITS for number in digits):
            return Step(f"precision and exponent are at most {MOST_DIGITS}.", kind="error")
        try:
            result = getattr(instance, str(action.tool))(**arguments)
            text = result if isinstance(result, str) else json.dumps(result, default=str)
        except Exception as error:
            return Step(f"{type(error).__name__}: {error}", kind="error")
        state.results.append(text)
        failed = isinstance(result, Mapping) and "error" in result
        return Step(text, kind="error" if failed else "ok")

    def grade(self, problem: Problem, trajectory: Trajectory) -> Grade:
        """Compare with a fresh state on which the reference calls were made."""
        start, wanted, made = self.open(problem, 0), self.open(problem, 0), trajectory.state
        # The classes are deterministic: the reference calls give the expected state.
        for action in self.solution(problem):
            self.step(wanted, action)
        before, expected, after = (_attributes(state) for state in (start, wanted, made))
        # The score leaves out attributes that were to stay and did.
        parts = [
            (f"{key} of {name}", after.get((name, key)) == value)
            for (name, key), value in expected.items()
            if not before.get((name, key)) == value == after.get((name, key))
        ]
        for action, result in zip(self.solution(problem), wanted.results, strict=True):
            parts.append((f"the result of {action.tool}", result in made.results))
        wrong = [part for part, right in parts if not right]
        return Grade(
            correct=not wrong,
            format_ok=any(step.actions for step in trajectory.steps),
            score=1 - len(wrong) / len(parts),
            details={"wrong": wrong},
        )

    def explain(
        self, problem: Problem, trajectory: Trajectory, grade: Grade, level: FeedbackLevel
    ) -> Sequence[Note]:
        """The wrong attributes (`location`), the failed steps and errors (`hint`), or the calls."""
        if grade.correct or level == "verdict":
            return [Note(verdict(grade))]
        notes = [Note(f"Not right: {', '.join(grade.details['wrong'])}.")]
        for k, step in enumerate(trajectory.steps if level != "location" else ()):
            failed = [result for result in step.results if result.kind == "error"]
            notes += [Note(f"A call failed: {result.observation}", k) for result in failed]
        if level == "full":
            notes.append(Note(f"The right calls are:\n{problem.reference}"))
        return notes

    def solution(self, problem: Problem) -> list[Action]:
        """The reference calls."""
        return [Action("", tool, arguments) for tool, arguments in problem.data["calls"]]

    def _problem(
        self, index: int, task: Mapping[str, Any], turns: Sequence[Sequence[str]]
    ) -> Problem:
        calls = [self._call(text) for turn in turns for text in turn]
        data = {
            "requests": [message["content"] for turn in task["question"] for message in turn],
            "config": task["initial_config"],
            "classes": task["involved_classes"],
            "calls": calls,
        }
        reference = "\n".join(
            json.dumps({"name": tool, "arguments": arguments}) for tool, arguments in calls
        )
        return Problem(self.name, index, data, reference)

    def _call(self, text: str) -> list[Any]:
        """`sort('a.txt')` -> `["sort", {"file_name": "a.txt"}]`, without evaluating anything."""
        call: Any = ast.parse(text, mode="eval").body
        method = getattr(self._classes[self._owners[call.func.id]], call.func.id)
        # `self` has no argument here; parameters beyond those given have defaults, so `zip` is not
        # strict.
        names = [*signature(method).parameters][1:]
        by_place = {
            name: ast.literal_eval(value) for name, value in zip(names, call.args, strict=False)
        }
        by_name = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        return [call.func.id, by_place | by_name]


def _attributes(state: Apis) -> dict[tuple[str, str], Any]:
    return {
        (name, key): value
        for name, instance in state.instances.items()
        for key, value in vars(instance).items()
        if not key.startswith("_")
    }


def _rows(*where: str) -> list[dict[str, Any]]:
    """Rows of a file in the package's data."""
    text = resources.files("bfcl_eval").joinpath("data", *where).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _as_openai(value: Any) -> Any:
    """The package's types of parameters under their names in JSON schemas."""
    if isinstance(value, list):
        return [_as_openai(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        key: TYPES.get(part, part) if key == "type" and isinstance(part, str) else _as_openai(part)
        for key, part in value.items()
    }
