r"""The tasks of the package reasoning-gym (puzzles, algebra, games, …), graded by their own
`score_answer`.

`rltf data build reasoning_gym task=sudoku params="{'min_empty': 20}"`. An item travels with
everything that its scorer needs, so that a dataset may mix tasks and training needs no options.
Grading happens in worker processes with a deadline: scorers are the package's code, and some are
slow or run away on odd answers.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from rltf_verl.envs.base import INCORRECT, Env, FeedbackLevel, Splits, require_counts, verdict
from rltf_verl.envs.pool.pool import TRIAL_S, CallFailed, Pool, shared_pool
from rltf_verl.envs.reasoning_gym.feedback import reading, shape
from rltf_verl.envs.reasoning_gym.text import said_answer
from rltf_verl.kinds import Within
from rltf_verl.registry import require_choice, require_package, unknown
from rltf_verl.texts import counted
from rltf_verl.types import Grade, Problem

SUFFIX = "\n\nLet's think step by step and output the final answer within \\boxed{}."

CHUNK = 32
"""Items that a worker makes in one call."""
CHUNK_S = 600.0
MAX_ROUNDS = 5
"""Items made per needed item, at most, in search of different ones."""

REFUSED = {
    "boxnet": "its items come without a solution",
    "rush_hour": "its items come without a solution",
    "game_of_life_halting": "its scorer takes every answer for right",
    "propositional_logic": (
        "its scorer takes a premise of the question for a conclusion, and one "
        "formula for half of all problems"
    ),
    "composite": "it mixes other tasks: build a dataset of each and give verl all the files",
}
"""Tasks that cannot be had here, and why."""


class ReasoningGym(Env):
    """The environment `reasoning_gym`. `Problem.data` holds `question`, `task`, `params` and the
    `entry` to score.

    Args:
        task: name of a dataset of reasoning-gym; for `build` only.
        params: its parameters, beside size and seed; for `build` only.
        timeout_s: seconds for one grade; then it is graded wrong, with the cause in `Grade.error`.
        num_workers: processes that grade, at most; started when there is something to grade.

    Raises:
        ValueError: an option has a value it cannot have, or reasoning-gym is not installed; names
            the config key.
    """

    name = "reasoning_gym"
    packages = ("reasoning-gym", "sympy")

    def __init__(
        self,
        task: str | None = None,
        params: Mapping[str, Any] | None = None,
        timeout_s: Annotated[float, Within(above=0, most=3600)] = 10.0,
        num_workers: Annotated[int, Within(1, 256)] = 4,
    ) -> None:
        require_package("reasoning_gym", "reasoning_gym", "'rltf-verl[data]'")
        if task in REFUSED:
            raise ValueError(f"rltf.env.task={task!r} cannot be used: {REFUSED[task]}")
        self._task, self._params = task, json.dumps(dict(params or {}), sort_keys=True)
        self._timeout_s, self._num_workers = float(timeout_s), num_workers

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Make different test problems, and training problems (which may repeat) that are none of
        them.

        Raises:
            ValueError: unknown task or parameter, or the task has too few different items; names
                the config key.
        """
        require_counts(num_train, num_test)
        task = self._known_task()
        test: dict[str, Problem] = {}
        train: list[Problem] = []
        num_unsolved = 0
        items = self._items(task, seed, num_train + num_test)
        while len(test) < num_test or len(train) < num_train:
            item = next(items, "end")
            if item == "end":
                raise ValueError(
                    f"rltf.env.task={task}: found only {len(test)} test and {len(train)} training"
                    " problems that differ; lower num_test or num_train, or widen rltf.env.params"
                )
            if item is None:
                num_unsolved += 1
            elif item[0] not in test:
                if len(test) < num_test:
                    test[item[0]] = self._problem(task, len(test), item)
                else:
                    train.append(self._problem(task, len(train), item))
        splits = Splits(tuple(train), tuple(test.values()))
        if not num_unsolved:
            return splits
        left_out = counted(num_unsolved, "item")
        why = f"{left_out} left out: reasoning-gym does not take its own answer"
        return replace(splits, notes=(why,))

    def trouble(self) -> str | None:
        """The error of a call: reasoning-gym may be installed and broken."""
        try:
            self._pool.call("names", deadline_s=TRIAL_S)
        except CallFailed as error:
            return (
                f"rltf.env.name=reasoning_gym: the package does not work ({error}); install it"
                " again: pip install --force-reinstall reasoning-gym"
            )
        return None

    def prompt(self, problem: Problem) -> str:
        """The user message of the first turn."""
        return f"{problem.data['question'].rstrip()}{SUFFIX}"

    def grade(self, problem: Problem, text: str) -> Grade:
        r"""Score the last `\boxed{}`, else the last `<answer>`, else, as an answer of the wrong
        form, the last line."""
        answer, format_ok = said_answer(text)
        if not answer:
            return Grade(correct=False, format_ok=format_ok)
        data = problem.data
        try:
            score = self._pool.call(
                "score",
                data["task"],
                data["params"],
                data["entry"],
                answer,
                deadline_s=self._timeout_s,
            )
        except CallFailed as error:
            return Grade(
                correct=False,
                format_ok=format_ok,
                parsed=answer,
                error=f"scoring: {error}",
                score=0.0,
            )
        return Grade(score >= 1.0, format_ok, parsed=answer, score=score)

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Say how the answer was read and its score (`location`), the shape of a right one
        (`hint`), or one (`full`).

        The tasks have no common way to say where an answer goes wrong; their score is all that they
        tell.
        """
        if grade.correct or level == "verdict":
            return verdict(grade)
        sentences = [INCORRECT, reading(grade)]
        if level == "hint":
            sentences.append(f"A right answer is {shape(problem.reference)}.")
        if level == "full":
            sentences.append(f"A right answer is:\n{problem.reference}")
        return " ".join(sentences)

    def subset(self, problem: Problem) -> str:
        """The task."""
        return str(problem.data["task"])

    def _problem(self, task: str, index: int, item: Any) -> Problem:
        question, reference, entry = item
        data = {"question": question, "task": task, "params": self._params, "entry": entry}
        return Problem(self.name, index, data, reference)

    @property
    def _pool(self) -> Pool:
        return shared_pool("rltf_verl.envs.reasoning_gym.worker", self._num_workers)

    def _known_task(self) -> str:
        """The task, if it and its parameters exist."""
        known = [name for name in self._call("names") if name not in REFUSED]
        if self._task is None:
            raise ValueError(f"rltf.env.task is not given; known: {', '.join(known)}")
        require_choice("rltf.env.task", self._task, known)
        options = self._call("options", self._task)
        for option, value in json.loads(self._params).items():
            if option not in options:
                raise unknown(f"rltf.env.params.{option}", value, options)
        return self._task

    def _items(self, task: str, seed: int, num: int) -> Iterator[Any]:
        """Question, reference and entry of ever more items, or None in the place of one without a
        usable answer.
        """
        # Item i of seed s is item i-1 of seed s+1 in many tasks: seeds next to each other must not
        # give the same items.
        seeds = random.Random(f"rltf {seed}")
        starts = range(0, num, CHUNK)
        for _ in range(MAX_ROUNDS):
            # A seed for each round: a round's items are those of one dataset.
            make = partial(self._call, "generate", task, self._params, num, seeds.randrange(2**30))
            with ThreadPoolExecutor(self._num_workers) as threads:
                for made in threads.map(make, starts, [min(at + CHUNK, num) for at in starts]):
                    yield from made

    def _call(self, function: str, *arguments: Any) -> Any:
        try:
            return self._pool.call(function, *arguments, deadline_s=CHUNK_S)
        except CallFailed as error:
            raise ValueError(
                f"rltf.env.task={self._task} rltf.env.params={self._params}: reasoning-gym refuses:"
                f" {error}"
            ) from error
