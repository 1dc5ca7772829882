"""An environment with tools in one file: find a person's number in a phone book of departments."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from rltf_verl.envs.base import Env, FeedbackLevel, Limits, Splits
from rltf_verl.types import Action, Grade, Note, Problem, Step, Trajectory

NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana")
DEPARTMENTS = ("sales", "support", "press", "legal")


def tool(name: str, description: str, parameter: str) -> dict[str, Any]:
    """A schema with one text as parameter."""
    properties = {parameter: {"type": "string", "description": parameter}}
    parameters = {"type": "object", "properties": properties, "required": [parameter]}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


class Lookup(Env):
    """The policy looks into departments and answers with a number. It does not know that a person
    who moved has an old number too; feedback says so.
    """

    name = "lookup"
    tools: Sequence[Mapping[str, Any]] = (
        tool("look", "List the people of a department.", "department"),
        tool("answer", "Give the number; this ends the task.", "number"),
    )
    limits = Limits(steps=6, observation_tokens=64)

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Phone books in which the person stands twice."""
        rng = random.Random(seed)
        problems = [self._problem(rng, i) for i in range(num_train + num_test)]
        return Splits(tuple(problems[:num_train]), tuple(problems[num_train:]))

    def _problem(self, rng: random.Random, index: int) -> Problem:
        old, new = rng.sample(DEPARTMENTS, 2)
        person = rng.choice(NAMES)
        book = {d: {n: str(rng.randrange(100, 1000)) for n in rng.sample(NAMES, 2)}
                for d in DEPARTMENTS}  # fmt: skip
        for people in book.values():
            people.pop(person, None)
        book[old][person] = str(rng.randrange(100, 1000))
        book[new][f"{person} (since May)"] = number = str(rng.randrange(100, 1000))
        return Problem(self.name, index, {"person": person, "book": book}, number)

    def prompt(self, problem: Problem) -> str:
        """The task."""
        departments = ", ".join(DEPARTMENTS)
        return f"Find the phone number of {problem.data['person']}. Departments: {departments}."

    def open(self, problem: Problem, seed: int) -> dict[str, Any]:
        """The book, and what was answered."""
        return {"book": problem.data["book"], "answer": None}

    def step(self, state: dict[str, Any], action: Action) -> Step:
        """Look into a department, or answer."""
        if action.tool == "answer":
            state["answer"] = str(action.arguments.get("number"))
            return Step("Thank you.", done=True)
        people = state["book"].get(str(action.arguments.get("department")))
        if people is None:
            return Step(f"There is no such department; there are {', '.join(DEPARTMENTS)}.",
                        kind="error")  # fmt: skip
        return Step("\n".join(f"{name}: {number}" for name, number in people.items()))

    def grade(self, problem: Problem, trajectory: Trajectory) -> Grade:
        """Right is the new number."""
        answer = trajectory.state["answer"]
        return Grade(answer == problem.reference, format_ok=answer is not None, parsed=answer)

    def explain(
        self, problem: Problem, trajectory: Trajectory, grade: Grade, level: FeedbackLevel
    ) -> list[Note]:
        """The house rule, on the step that broke it."""
        if grade.correct:
            return [Note("Your previous answer is correct.")]
        last = len(trajectory.steps) - 1
        texts = {
            "verdict": "Your previous answer is incorrect.",
            "location": "This number is not the right one.",
            "hint": "People who moved stand in two departments; look into all of them.",
            "full": f"The number is {problem.reference}.",
        }
        return [Note(texts[level], step=None if level == "verdict" else last)]
