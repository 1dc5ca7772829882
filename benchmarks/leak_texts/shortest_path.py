"""Feedback texts on `shortest_path`: problems, wrong attempts, and how texts are put together from
wordings.

`direct` lists the moves of a shortest path as an answer does, `paraphrased` tells them in a
sentence, `spelled` counts them or uses other signs (arrows, compass points, cells), `partial` gives
the first moves or one that comes next, `oblique` lets the reader work it out. Of a grid without a
path every leak says that there is none.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from rltf_verl.envs.shortest_path import ShortestPath
from rltf_verl.envs.shortest_path.mazes import STEPS
from rltf_verl.types import Problem

NUM = {
    "direct": 120,
    "paraphrased": 70,
    "spelled": 60,
    "partial": 80,
    "oblique": 15,
    "innocent": 240,
}
WORDS = {"R": "right", "D": "down", "L": "left", "U": "up"}
ARROWS = {"R": "→", "D": "↓", "L": "←", "U": "↑"}
COMPASS = {"R": "east", "D": "south", "L": "west", "U": "north"}
BACK = {"R": "L", "L": "R", "U": "D", "D": "U"}
COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TIMES = ("", "once", "twice", "three times", "four times", "five times", "six times", "seven times")


@dataclass(frozen=True)
class Case:
    """What a text is about."""

    env: ShortestPath
    style: str
    problem: Problem
    attempt: str
    """Its moves, letters of `STEPS`; empty: it says that there is no path."""
    rng: random.Random

    @property
    def best(self) -> str:
        """The moves; empty: there is no path."""
        answer = str(self.problem.data["answer"])
        return (
            ""
            if answer == "infeasible"
            else "".join(word[0].upper() for word in answer.split(", "))
        )

    @property
    def attempt_text(self) -> str:
        return f"\\boxed{{{self.written(self.attempt)}}}"

    def written(self, moves: str) -> str:
        """Moves as the environment wants an answer."""
        if self.style == "compact":
            return moves or "N"
        return ", ".join(words(moves)) or "infeasible"

    def cells(self, moves: str, base: int = 0) -> list[tuple[int, int]]:
        """The cells on the way, with the first and the last."""
        row, column = self.problem.data["start"]
        found = [(row + base, column + base)]
        for move in moves:
            down, right = STEPS[move]
            row, column = row + down, column + right
            found.append((row + base, column + base))
        return found

    def common(self) -> int:
        """How many moves the attempt begins with as the path does."""
        return next(
            (i for i, m in enumerate(self.best) if self.attempt[i : i + 1] != m), len(self.best)
        )

    def told(self, level: str) -> str:
        """What the environment itself says of the attempt."""
        grade = self.env.grade(self.problem, self.attempt_text)
        return self.env.explain(self.problem, self.attempt_text, grade, level)

    def a_move(self) -> tuple[int, str]:
        """Number (from 1) and word of one of the attempt's moves."""
        i = self.rng.randrange(len(self.attempt))
        return i + 1, WORDS[self.attempt[i]]

    def a_row(self) -> tuple[int, str]:
        """A row of the grid and its number."""
        i = self.rng.randrange(len(self.problem.data["grid"]))
        return i + 1, " ".join(self.problem.data["grid"][i])


def words(moves: str) -> list[str]:
    return [WORDS[move] for move in moves]


def runs(moves: str) -> list[tuple[str, int]]:
    """`RRD` as [(R, 2), (D, 1)]."""
    return [(move, len(list(same))) for move, same in groupby(moves)]


def cases(style: str, seed: int) -> Iterator[Case]:
    """Problems with attempts that run into something, are too long, stop early, or deny that there
    is a path.
    """
    rng, env = random.Random(seed), ShortestPath(style=style)
    while True:
        for problem in env.build(rng.randrange(2**31), 500, 0).train:
            case = Case(env, style, problem, "", rng)
            attempt = _wrong(case.best, rng)
            if not env.grade(problem, f"\\boxed{{{case.written(attempt)}}}").correct:
                yield Case(env, style, problem, attempt, rng)


def _wrong(best: str, rng: random.Random) -> str:
    kind = rng.randrange(5)
    if not best or kind == 0:
        return "".join(rng.choice("RDLU") for _ in range(rng.randint(2, 7)))
    if kind == 1:
        return "" if rng.random() < 0.5 else best[:-1] or BACK[best]
    place = rng.randrange(len(best))
    if kind == 2:
        return best[:place] + rng.choice("RDLU") + best[place + 1 :]
    if kind == 3:
        return best[:place] + best[place] + BACK[best[place]] + best[place:]
    return best[:place] + "".join(rng.choice("RDLU") for _ in range(rng.randint(1, 4)))
