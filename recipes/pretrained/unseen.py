"""Ten small tasks in the words of users: conventions that no setting of this recipe was chosen on.

Each has a question, a sentence of feedback and a form of its own; neither words nor signs are those
of `house_style` or its warm-up. `CHOOSING` are for choosing settings, `FINAL` are run once at the
end (`unseen_runs.py`, which has two puzzles of the tiny policy beside them).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from house_conventions import CITIES, FIRST_NAMES, LAST_NAMES, MONTHS, STREETS, WARES

from rltf_verl.envs.base import FeedbackLevel, Splits, draw_splits, require_counts
from rltf_verl.types import Grade, Problem

Item = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One convention."""

    family: Literal["date", "entries"]
    """Whose warm-up the policy has had."""
    question: str
    """With the item as `{}`."""
    feedback: str
    """With another item as `{plain}` and `{written}`."""
    draw: Callable[[random.Random], Item]
    plain: Callable[[Item], str]
    written: Callable[[Item], str]


def _date(rng: random.Random) -> Item:
    return {"y": rng.randrange(1930, 2020), "m": rng.choice(MONTHS), "d": rng.randint(1, 28)}


def _plain_date(item: Item) -> str:
    return f"{item['m']} {item['d']}, {item['y']}"


def _person(rng: random.Random) -> Item:
    return {"first": rng.choice(FIRST_NAMES), "last": rng.choice(LAST_NAMES)}


def _plain_person(item: Item) -> str:
    return f"{item['first']} {item['last']}"


def _ware(rng: random.Random) -> Item:
    return {"ware": rng.choice(WARES), "number": rng.randrange(100, 1000)}


def _plain_ware(item: Item) -> str:
    return f"{item['ware']} number {item['number']}"


def _sum(rng: random.Random) -> Item:
    return {"whole": rng.randrange(1000, 10_000), "cents": rng.randrange(100)}


def _plain_sum(item: Item) -> str:
    return f"${item['whole']}.{item['cents']:02d}"


def _address(rng: random.Random) -> Item:
    draw = rng.choice
    return {"number": rng.randint(2, 99), "street": draw(STREETS), "city": draw(CITIES)}


def _plain_address(item: Item) -> str:
    return f"{item['number']} {item['street']} Street in {item['city']}"


TASKS = {
    "archive": Task(
        "date",
        "Which label does the archive give to {}? Label only.",
        "Wrong label. {plain} has the label {written}.",
        _date,
        _plain_date,
        lambda item: f"{item['y']}.{item['m'][:3].upper()}.{item['d']}",
    ),
    "equals": Task(
        "date",
        "Write {} in the form of our register, and nothing else.",
        "Our register has {plain} as {written}.",
        _date,
        _plain_date,
        lambda item: f"{item['d']}={item['m'][:3].upper()}={item['y'] % 100:02d}",
    ),
    "arrows": Task(
        "date",
        "The film was shot on {}. How is the reel marked? Give the mark.",
        "No. A reel of {plain} is marked {written}.",
        _date,
        _plain_date,
        lambda item: f"{item['m'][:3]}>{item['d']:02d}>{item['y']}",
    ),
    "initial": Task(
        "entries",
        "Sign in {} at the gate. Write the entry only.",
        "The guard would write {plain} as {written}.",
        _person,
        _plain_person,
        lambda item: f"{item['last'].upper()}; {item['first'][0]}",
    ),
    "stock": Task(
        "entries",
        "What is on the shelf of the {}? Only the tag.",
        "There is another tag on it. The tag of the {plain} is {written}.",
        _ware,
        _plain_ware,
        lambda item: f"{item['number']:05d}={item['ware'].upper()}",
    ),
    "percent": Task(
        "date",
        "Stamp the letter of {}. What does the stamp say?",
        "The stamp is set wrong. For {plain} it says {written}.",
        _date,
        _plain_date,
        lambda item: f"{item['y'] % 100:02d}%{item['m'][:3].lower()}%{item['d']:02d}",
    ),
    "yearless": Task(
        "date",
        "Put the birthday {} on the wall calendar. Entry only.",
        "That is not what we put there. {plain} is {written} on the wall.",
        _date,
        _plain_date,
        lambda item: f"{item['d']}.{item['m'][:3]}",
    ),
    "login": Task(
        "entries",
        "Which login does {} get? The login, please.",
        "No such login. {plain} got {written}.",
        _person,
        _plain_person,
        lambda item: f"{item['first'].lower()}={item['last'].lower()}",
    ),
    "ledger": Task(
        "entries",
        "Enter the payment of {} in the ledger. Reply with the line.",
        "The ledger does not take that. {plain} is the line {written}.",
        _sum,
        _plain_sum,
        lambda item: f"{item['whole'] // 1000}'{item['whole'] % 1000:03d}/{item['cents']:02d}=usd",
    ),
    "parcel": Task(
        "entries",
        "Address the parcel to {}. Write what goes on it.",
        "It would get lost. Parcels to {plain} go to {written}.",
        _address,
        _plain_address,
        lambda item: f"{item['city'].upper()} > {item['street']} {item['number']}",
    ),
}
CHOOSING = ("archive", "equals", "arrows", "initial", "stock")
FINAL = ("percent", "yearless", "login", "ledger", "parcel")


class Unseen:
    """The environment `unseen`: one of `TASKS`. `Problem.data` holds `plain` and `others`, items
    with no part of it for feedback.

    Args:
        task: its name.

    Raises:
        ValueError: there is no such task.
    """

    name = "unseen"

    def __init__(self, task: str = "archive") -> None:
        if task not in TASKS:
            raise ValueError(f"rltf.env.task={task}: choose one of {', '.join(TASKS)}")
        self._task = TASKS[task]

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Different test problems, and training problems that are none of them."""
        require_counts(num_train, num_test)
        rng = random.Random(seed)
        train, test = draw_splits(
            lambda index: self._problem(rng, index),
            lambda problem: problem.reference,
            num_train,
            num_test,
            "take another task",
        )
        return Splits(tuple(train), tuple(test))

    def _problem(self, rng: random.Random, index: int) -> Problem:
        item = self._task.draw(rng)
        others = [self._other(rng, item) for _ in range(4)]
        data = {"plain": self._task.plain(item), "others": others}
        return Problem(self.name, index, data, self._task.written(item))

    def _other(self, rng: random.Random, item: Item) -> list[str]:
        while set((other := self._task.draw(rng)).values()) & set(item.values()):
            pass
        return [self._task.plain(other), self._task.written(other)]

    def prompt(self, problem: Problem) -> str:
        """The question, which says nothing of the form."""
        return self._task.question.format(problem.data["plain"])

    def grade(self, problem: Problem, text: str) -> Grade:
        """Exact."""
        said = text.strip()
        return Grade(said == problem.reference, bool(said), said)

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Another item in the form."""
        if grade.correct:
            return "Right."
        plain, written = problem.data["others"][len(text) % 4]
        return self._task.feedback.format(plain=plain, written=written)
