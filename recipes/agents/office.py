"""Work with tools in an office whose house has one rule that no prompt tells beforehand.

A problem is one to three orders ("Close ticket T412."), which 2 to 6 calls carry out. One of them
falls under the house's rule, which is in no prompt and in no observation: only feedback tells it.
The grader compares the final state with the expected one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from desk import TOOLS, Call, Desk, Fact, fact_of
from orders import Conventions, draw, hint, house_of

from rltf_verl.envs.base import (
    Env,
    FeedbackLevel,
    Limits,
    Splits,
    draw_splits,
    require_counts,
    verdict,
)
from rltf_verl.kinds import Within
from rltf_verl.types import Action, Grade, Note, PlayedStep, Problem, Step, Trajectory

BROKE_RULE = "This breaks a rule of the house"
STRAY = "Nobody ordered this."


class Workspace(Env):
    """The environment. `Problem.data` holds `house`, `rule`, `records` and `orders`.

    Args:
        conventions: `house`, or `practice`: rules that no house has, for a warm-up.
        house: number of the first house; name and rule are drawn from it.
        num_houses: houses of a dataset; each problem is about one of them.
        max_orders: most orders of a problem.

    Raises:
        ValueError: an option has a value it cannot have; names the config key.
    """

    name = "workspace"
    tools: Sequence[Mapping[str, Any]] = TOOLS
    limits = Limits(steps=10, step_s=5, attempt_s=60, observation_tokens=40)
    revise_templates = dict.fromkeys(("attempt", "question", "answer", "logits"), "note") | {
        "append": "plain_append"
    }

    def __init__(
        self,
        conventions: Conventions = "house",
        house: Annotated[int, Within(0, 1_000_000)] = 0,
        num_houses: Annotated[int, Within(1, 1_000_000)] = 1,
        max_orders: Annotated[int, Within(1, 3)] = 3,
    ) -> None:
        self._conventions, self._houses = conventions, range(house, house + num_houses)
        self._max_orders = max_orders

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Distinct test problems, and training problems that are none of them.

        Raises:
            ValueError: a negative number, or more than there are.
        """
        require_counts(num_train, num_test)
        draw = partial(self._draw, random.Random(seed))
        fix = "raise rltf.env.max_orders or num_houses"
        train, test = draw_splits(draw, self.prompt, num_train, num_test, fix)
        return Splits(tuple(train), tuple(test))

    def prompt(self, problem: Problem) -> str:
        """The orders, which say nothing of the rule."""
        orders = "\n".join(f"- {order['text']}" for order in problem.data["orders"])
        house = problem.data["house"]
        return f"You work for {house}. Do this with the tools, then say done.\n{orders}"

    def open(self, problem: Problem, seed: int) -> Desk:
        """The workspace as the problem has it, whatever the seed."""
        return Desk(problem.data["records"])

    def step(self, state: Desk, action: Action) -> Step:
        """Do a call; what it refuses comes back as a sentence."""
        return state.act(action)

    def grade(self, problem: Problem, trajectory: Trajectory) -> Grade:
        """Correct: the final state is the expected one, without any other change. The score is the
        share of right changes among those that were expected or made.
        """
        orders = problem.data["orders"]
        # States are compared as sets of facts: the order of the calls does not matter.
        expected = {fact_of(call) for order in orders for call in _changes(order)}
        made: set[Fact] = trajectory.state.facts
        faults = list(_faults(orders, trajectory.steps, made))
        missing = [
            order["text"] for order in orders if not made.issuperset(map(fact_of, _changes(order)))
        ]
        ruled = next(order["text"] for order in orders if order["ruled"])
        return Grade(
            correct=made == expected,
            format_ok=any(step.actions for step in trajectory.steps),
            score=len(made & expected) / len(made | expected),
            details={"faults": faults, "missing": missing, "ruled": ruled in missing},
        )

    def explain(
        self, problem: Problem, trajectory: Trajectory, grade: Grade, level: FeedbackLevel
    ) -> Sequence[Note]:
        """The wrong steps and the missing work (`location`), the rule in words (`hint`), or the
        calls (`full`).
        """
        if grade.correct or level == "verdict":
            return [Note(verdict(grade))]
        faults, rule_text = grade.details["faults"], hint(problem.data["rule"])
        broke = BROKE_RULE if level == "location" else f"{BROKE_RULE}: {rule_text}"
        notes = [Note(f"{broke}." if of_rule else STRAY, k) for k, of_rule in faults]
        untold = grade.details["ruled"] and not any(of_rule for _, of_rule in faults)
        if untold and level != "location":
            notes.append(Note(f"House rule: {rule_text}."))
        if grade.details["missing"]:
            notes.append(Note(f"Not done as it should be: {' '.join(grade.details['missing'])}"))
        if level == "full":
            notes.append(Note(f"The right calls are:\n{problem.reference}"))
        return notes

    def solution(self, problem: Problem) -> list[Action]:
        """Calls that are graded correct."""
        return [
            Action("", tool, arguments)
            for order in problem.data["orders"]
            for tool, arguments in order["calls"]
        ]

    def _draw(self, rng: random.Random, index: int) -> Problem:
        house, rule = house_of(rng.choice(self._houses), self._conventions)
        records, orders = draw(rng, rule, self._max_orders)
        data = {"house": house, "rule": rule, "records": records, "orders": orders}
        calls = [call for order in orders for call in order["calls"]]
        reference = "\n".join(
            json.dumps({"name": tool, "arguments": arguments}) for tool, arguments in calls
        )
        return Problem(self.name, index, data, reference)


def _changes(order: Mapping[str, Any]) -> list[Call]:
    """The calls of an order that change something."""
    return [(tool, arguments) for tool, arguments in order["calls"] if tool != "read"]


def _faults(
    orders: Sequence[Mapping[str, Any]], steps: Sequence[PlayedStep], made: set[Fact]
) -> Iterator[tuple[int, bool]]:
    """Steps whose change was not requested or came too early, and whether that broke the rule. The
    rule is broken once: what follows is the consequence.
    """
    ordered = {fact_of(call) for order in orders for call in _changes(order)}
    ruled = [fact_of(call) for order in orders if order["ruled"] for call in _changes(order)]
    done: set[Fact] = set()
    broken = False
    for k, fact in _facts(steps):
        # The calls of the ruled order that come before this one.
        too_soon = fact in ruled and not done.issuperset(ruled[: ruled.index(fact)])
        done.add(fact)
        # Taken back later, or ordered and in time.
        if fact not in made or (fact in ordered and not too_soon):
            continue
        broke_rule = any(fact[:2] == other[:2] for other in ruled)
        if not (broke_rule and broken):
            yield k, broke_rule
        broken = broken or broke_rule


def _facts(steps: Sequence[PlayedStep]) -> Iterator[tuple[int, Fact]]:
    """Effects of the calls that went well, with the number of the step."""
    for k, step in enumerate(steps):
        # A call that could not be read has a result, and no action.
        for action, result in zip(step.actions, step.results, strict=False):
            if result.kind == "ok" and action.tool not in (None, "read"):
                yield k, fact_of((str(action.tool), action.arguments))
