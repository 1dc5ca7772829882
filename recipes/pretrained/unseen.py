"""Thirteen small tasks that no setting of this recipe was chosen on.

`Unseen`: dates in the words of users. Each has a question, a sentence of feedback and a form of its
own; neither words nor signs are those of `house_style` or its warm-up. `Company`: what else a
company writes, in the words of `house_style`, with signs that neither its houses nor the warm-up
have. `Puzzle`: matrices for the tiny policy of recipes/demo. `unseen_runs.py` says which ones are
for choosing settings.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from house_conventions import MONTHS, Rule
from house_style import HouseStyle

from rltf_verl.envs.base import Env, FeedbackLevel, Splits, draw_splits, require_counts
from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.types import Grade, Problem

Item = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One convention."""

    question: str
    """With the item as `{}`."""
    feedback: str
    """With another item as `{plain}` and `{written}`."""
    written: Callable[[Item], str]


def draw(rng: random.Random) -> Item:
    """A date."""
    return {"y": rng.randrange(1930, 2020), "m": rng.choice(MONTHS), "d": rng.randint(1, 28)}


def plain(item: Item) -> str:
    """The date as questions have it."""
    return f"{item['m']} {item['d']}, {item['y']}"


TASKS = {
    "archive": Task(
        "Which label does the archive give to {}? Label only.",
        "Wrong label. {plain} has the label {written}.",
        lambda item: f"{item['y']}.{item['m'][:3].upper()}.{item['d']}",
    ),
    "equals": Task(
        "Write {} in the form of our register, and nothing else.",
        "Our register has {plain} as {written}.",
        lambda item: f"{item['d']}={item['m'][:3].upper()}={item['y'] % 100:02d}",
    ),
    "arrows": Task(
        "The film was shot on {}. How is the reel marked? Give the mark.",
        "No. A reel of {plain} is marked {written}.",
        lambda item: f"{item['m'][:3]}>{item['d']:02d}>{item['y']}",
    ),
    "percent": Task(
        "Stamp the letter of {}. What does the stamp say?",
        "The stamp is set wrong. For {plain} it says {written}.",
        lambda item: f"{item['y'] % 100:02d}%{item['m'][:3].lower()}%{item['d']:02d}",
    ),
    "carets": Task(
        "Head the page of the ship's log for {}. The heading alone, please.",
        "Captain's rule: {plain} is headed {written}.",
        lambda item: f"{item['y']}^{item['m'][:3].lower()}^{item['d']}",
    ),
    "yearless": Task(
        "Put the birthday {} on the wall calendar. Entry only.",
        "That is not what we put there. {plain} is {written} on the wall.",
        lambda item: f"{item['d']}.{item['m'][:3]}",
    ),
}

COMPANIES: dict[str, tuple[str, Rule]] = {
    "amounts": (
        "amount",
        {
            "order": "currency, number",
            "between": "~",
            "currency": "US$",
            "thousands": "'",
            "cents": "/",
        },
    ),
    "addresses": (
        "address",
        {
            "order": "city, street",
            "between": " * ",
            "street": "St.",
            "number": "last",
            "city": "leeds",
        },
    ),
    "offices": (
        "address",
        {
            "order": "street, city",
            "between": " => ",
            "street": "str",
            "number": "first",
            "city": "LEEDS",
        },
    ),
    "names": (
        "name",
        {"order": "last name, first name", "between": "=", "case": "LANG", "first": "initial"},
    ),
    "codes": (
        "product code",
        {"order": "number, ware", "between": ">", "ware": "lamp", "sign": "#", "digits": "5"},
    ),
}
"""Task -> what is written, and the rule: `US$~2'583/59`, `lyon * Mill St. 15`, `15 Mill str =>
LYON`, `WHITFIELD=G`, `#00259>lamp`.
"""


class Company(HouseStyle):
    """One of `COMPANIES`: a house with this rule.

    Args:
        task: its name.

    Raises:
        ValueError: there is no such task.
    """

    def __init__(self, task: str = "amounts") -> None:
        if task not in COMPANIES:
            raise ValueError(f"rltf.env.task={task}: choose one of {', '.join(COMPANIES)}")
        super().__init__()
        noun, self._rule = COMPANIES[task]
        self._nouns = (noun,)

    def _draw_rules(self, rng: random.Random) -> dict[str, Any]:
        return dict.fromkeys(self._nouns, self._rule)


class Unseen(Env):
    """The environment `unseen`: one of `TASKS`. `Problem.data` holds `plain` and `others`, items
    with no part of it for feedback.

    Args:
        task: its name.

    Raises:
        ValueError: there is no such task.
    """

    name = "unseen"
    revise_templates = HouseStyle.revise_templates
    """The prompts that the warm-up knows: with others its model does not read the feedback."""

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
        item = draw(rng)
        others = [self._other(rng, item) for _ in range(4)]
        data = {"plain": plain(item), "others": others}
        return Problem(self.name, index, data, self._task.written(item))

    def _other(self, rng: random.Random, item: Item) -> list[str]:
        while set((other := draw(rng)).values()) & set(item.values()):
            pass
        return [plain(other), self._task.written(other)]

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
        other, written = problem.data["others"][len(text) % 4]
        return self._task.feedback.format(plain=other, written=written)


SIZE = 3
"""Rows of a puzzle's matrix, as the tiny policy knows them."""
PUZZLES = ("distances", "counts")


class Puzzle(BinaryMatrix):
    """The demo's puzzle, or with `counts` another one of the same form: how many of a cell's
    neighbours are 0.

    Args:
        task: one of `PUZZLES`.

    Raises:
        ValueError: there is no such task.
    """

    def __init__(self, task: str = "counts") -> None:
        if task not in PUZZLES:
            raise ValueError(f"rltf.env.task={task}: choose one of {', '.join(PUZZLES)}")
        super().__init__(style="compact", n_min=SIZE, n_max=SIZE)
        self._counts = task == "counts"

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """As in `BinaryMatrix`."""
        splits = super().build(seed, num_train, num_test)
        if not self._counts:
            return splits
        return Splits(tuple(map(_counted, splits.train)), tuple(map(_counted, splits.test)))


def _counted(problem: Problem) -> Problem:
    matrix = problem.data["matrix"]
    counts = [[_zeros_beside(matrix, row, column) for column in range(SIZE)] for row in range(SIZE)]
    reference = "\n".join("".join(map(str, row)) for row in counts)
    return replace(problem, data={**problem.data, "solution": counts}, reference=reference)


def _zeros_beside(matrix: list[list[int]], row: int, column: int) -> int:
    beside = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
    return sum(matrix[i][j] == 0 for i, j in beside if 0 <= i < SIZE and 0 <= j < SIZE)
