r"""A shortest path on a grid with obstacles, as RLTF uses it.

`mode="official"` repeats the release's 20 000 items and its grader exactly. There, a boxed text
without a direction in it counts as "infeasible", and start and destination may be the same cell,
which counts as infeasible too: any constant words are right in 77 of its 200 test items.
`mode="strict"` (default) keeps the splits and both ends apart, takes "infeasible" only from who
says so, and makes a fixed, small share of the problems infeasible.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Annotated

from rltf_verl.envs.base import (
    INCORRECT,
    Candidate,
    FeedbackLevel,
    guided_templates,
    verdict,
)
from rltf_verl.envs.puzzle import Mode, Puzzle, Style
from rltf_verl.envs.shortest_path.feedback import diagnosis, marks
from rltf_verl.envs.shortest_path.leaks import path_candidates
from rltf_verl.envs.shortest_path.mazes import Maze, Sizes, is_path, release_mazes, shortest_path
from rltf_verl.envs.shortest_path.text import (
    NO_PATH,
    find_path,
    last_line,
    read_path,
    read_release_path,
    spell,
)
from rltf_verl.envs.text.boxed import last_box, released_box
from rltf_verl.kinds import Within
from rltf_verl.types import Grade, Problem

QUESTION = """\
Find the shortest path from the start (*) to the destination (#) in this grid.
You can only move through open cells (O) and cannot pass through obstacles (X).
Valid moves are: right, down, left, up.

Grid:
{grid}

If a path exists, return it as a sequence of moves (e.g., "right, down, right").
If no path exists, return "infeasible". Let's think step by step and output the final answer \
within \\boxed{{}}."""

NO_PATH_LETTER = "N"
"""The compact style's answer for no path."""
MAX_DRAWS = 100_000
"""Mazes that are thrown away in search of one problem."""


class ShortestPath(Puzzle):
    """The environment `shortest_path`. `Problem.data` holds `grid`, `start`, `dest`, `rows`, `cols`
    and `answer`.

    Args:
        mode: `official` or `strict` items and grading, see the module.
        rows_min: smallest number of rows.
        rows_max: largest number of rows.
        cols_min: smallest number of columns.
        cols_max: largest number of columns.
        p_blocked: chance of every cell to be an obstacle, in [0, 1).
        infeasible_share: share of the problems of each split that have no path, in [0, 1]; `strict`
            only. It is what "infeasible" scores when it is the answer to everything (in the release
            0.354, and 0.385 in its test split).
        style: `official` wording, or `compact` for small character-level models: the grid alone,
            answers are `RRDD`, or `N` if there is no path.

    Raises:
        ValueError: an option has a value it cannot have; names the config key.
    """

    name = "shortest_path"

    def __init__(
        self,
        mode: Mode = "strict",
        rows_min: Annotated[int, Within(1, 100)] = 5,
        rows_max: Annotated[int, Within(1, 100)] = 6,
        cols_min: Annotated[int, Within(2, 100)] = 5,
        cols_max: Annotated[int, Within(2, 100)] = 6,
        p_blocked: Annotated[float, Within(0, below=1)] = 0.4,
        infeasible_share: Annotated[float, Within(0, 1)] = 0.1,
        style: Style = "official",
    ) -> None:
        for key, least, most in (("rows", rows_min, rows_max), ("cols", cols_min, cols_max)):
            if most < least:
                raise ValueError(
                    f"rltf.env.{key}_max={most}: must be at least rltf.env.{key}_min={least}"
                )
        super().__init__(mode, style)
        self.revise_templates = guided_templates(self._compact)
        self._sizes = Sizes((rows_min, rows_max), (cols_min, cols_max), p_blocked)
        self._infeasible_share = infeasible_share

    def prompt(self, problem: Problem) -> str:
        """The user message of the first turn. `compact` is the grid alone."""
        if self._compact:
            return "\n".join(map("".join, problem.data["grid"]))
        return QUESTION.format(grid="\n".join(map(" ".join, problem.data["grid"])))

    def grade(self, problem: Problem, text: str) -> Grade:
        r"""Grade the boxed moves; `strict` takes the end of the text if there is no `\boxed{}`."""
        path = self._read(text)
        if path is None:
            return Grade(correct=False, format_ok=False)
        return Grade(correct=_is_correct(problem, path), format_ok=True, parsed=self._write(path))

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Say which move cannot be made, or where the moves end (`location`); from which cell to
        which, or how long a path is (`hint`); or the answer (`full`).

        Every message is one line. Levels below `full` name no direction. `compact` marks every move
        up to the first that cannot be made: `=` can, `x` cannot; then `?` not at the destination,
        `+` a shorter path exists, `!` a path exists. `hint` says more: `|` the edge or `X` an
        obstacle in place of `x`, the cell behind `?`, the number of moves too many behind `+`, of a
        path's moves behind `!`. `full` is the answer.
        """
        if grade.correct or level == "verdict":
            marked = grade.correct and self._compact and level != "verdict"
            return "=" if marked else verdict(grade)
        path, best = self._read(text), _best(problem)
        length, hint = 0 if best == NO_PATH else len(best), level != "location"
        if self._compact and level == "full":
            return self._write(best)
        if self._compact:
            return marks(_maze(problem), path, length, hint)
        answer = f" The answer is: {self._write(best)}." if level == "full" else ""
        return f"{INCORRECT} {diagnosis(_maze(problem), path, length, hint)}{answer}"

    def candidates(self, problem: Problem, text: str, attempt: str) -> Sequence[Candidate]:
        """Moves that a text lists, and claims that there is no path, for the leak guard."""
        return path_candidates(
            text, _maze(problem), _best(problem), self._read(attempt), self._write
        )

    def _read(self, text: str) -> str | None:
        if self._official:
            box = released_box(text)
            return None if box is None else read_release_path(box)
        box = last_box(text)
        if self._compact and (last_line(text) if box is None else box).strip() == NO_PATH_LETTER:
            return NO_PATH
        return find_path(text) if box is None else read_path(box)

    def _write(self, path: str) -> str:
        if not self._compact:
            return spell(path)
        if path == NO_PATH:
            return NO_PATH_LETTER
        return (" " if self._official else "").join(path)  # the release reads no RRDD

    def _problem(self, index: int, maze: Maze) -> Problem:
        best = shortest_path(maze)
        data = {
            "grid": maze.grid,
            "start": list(maze.start),
            "dest": list(maze.dest),
            "rows": len(maze.grid),
            "cols": len(maze.grid[0]),
            "answer": spell(NO_PATH if best is None else best),
        }
        return Problem(
            env=self.name, index=index, data=data, reference=self._write(best or NO_PATH)
        )

    def _release_items(self, seed: int, num: int) -> list[Maze]:
        return list(release_mazes(seed, num, self._sizes))

    def _strict_items(
        self, rng: random.Random, num: int, taken: set[str], *, distinct: bool
    ) -> list[Maze]:
        """`infeasible_share` of them, rounded, have no path, anywhere among them."""
        # The share is exact, not drawn: it is what a constant answer scores.
        infeasible = set(rng.sample(range(num), round(num * self._infeasible_share)))
        mazes = []
        for i in range(num):
            mazes.append(self._draw_one(rng, taken, feasible=i not in infeasible))
            if distinct:
                taken.add(str(mazes[-1].grid))
        return mazes

    def _draw_one(self, rng: random.Random, taken: set[str], feasible: bool) -> Maze:
        for _ in range(MAX_DRAWS):
            maze = self._sizes.draw(rng)
            if (shortest_path(maze) is not None) == feasible and str(maze.grid) not in taken:
                return maze
        wanted, change = ("feasible", "lower") if feasible else ("infeasible", "raise")
        share = f", or set rltf.env.infeasible_share=0 (now {self._infeasible_share})"
        raise ValueError(
            f"{MAX_DRAWS} grids were drawn and none was new and {wanted}: {change}"
            f" rltf.env.p_blocked (now {self._sizes.p_blocked}), raise rltf.env.rows_max or"
            f" rltf.env.cols_max, lower num_test{'' if feasible else share}"
        )


def _maze(problem: Problem) -> Maze:
    start, dest = problem.data["start"], problem.data["dest"]
    return Maze(problem.data["grid"], (start[0], start[1]), (dest[0], dest[1]))


def _best(problem: Problem) -> str:
    """A shortest path as the release reads it: where both ends are one cell, NO_PATH."""
    return read_release_path(problem.data["answer"])


def _is_correct(problem: Problem, path: str) -> bool:
    best = _best(problem)
    if NO_PATH in (path, best):
        return path == best
    return len(path) == len(best) and is_path(_maze(problem), path)
