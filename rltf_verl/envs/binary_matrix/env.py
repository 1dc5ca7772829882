r"""Distance of every cell of a 0/1 matrix to its nearest 0 (reasoning-gym's `binary_matrix`, as
RLTF uses it).

`mode="official"` repeats the release's 20 000 items and its grader exactly, except that it reads
lists with `ast.literal_eval` and not with `eval`: an expression such as `[[0,1]]+[[1,2]]` is not an
answer here. 97 of the release's 200 test matrices also occur in its training set. `mode="strict"`
(default) keeps the splits apart and grades what a human would.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from rltf_verl.envs.base import (
    CORRECT,
    INCORRECT,
    Candidate,
    FeedbackLevel,
    guided_templates,
    verdict,
)
from rltf_verl.envs.binary_matrix.feedback import diagnosis
from rltf_verl.envs.binary_matrix.leaks import distance_candidates
from rltf_verl.envs.binary_matrix.text import Cells, find_grid, is_square, read_grid
from rltf_verl.envs.puzzle import Mode, Puzzle, Style
from rltf_verl.envs.text.boxed import last_box, released_box
from rltf_verl.kinds import Within
from rltf_verl.types import Grade, Problem

Matrix = list[list[int]]

P_ZERO = 0.25

QUESTION = """\
Given a square matrix, your job is to find the taxicab (Manhattan) distance of the nearest 0 for \
each cell.

The output should be a matrix of the same size as the input matrix, where each cell contains the \
distance to the nearest 0.

Find the distance to the nearest 0 for each cell in the matrix below:
{matrix} Let's think step by step and output the final answer within \\boxed{{}}."""


class BinaryMatrix(Puzzle):
    """The environment `binary_matrix`. `Problem.data` holds `matrix`, `solution` and `n`.

    Args:
        mode: `official` or `strict` items and grading, see the module.
        n_min: smallest number of rows, at least 2 (a 1×1 matrix always has the answer 0).
        n_max: largest number of rows.
        style: `official` wording, or `compact`: nothing but digits, for small character-level
            models.

    Raises:
        ValueError: an option has a value it cannot have; names the config key.
    """

    name = "binary_matrix"

    def __init__(
        self,
        mode: Mode = "strict",
        n_min: Annotated[int, Within(2, 100)] = 3,
        n_max: Annotated[int, Within(2, 100)] = 5,
        style: Style = "official",
    ) -> None:
        if n_max < n_min:
            raise ValueError(f"rltf.env.n_max={n_max}: must be at least rltf.env.n_min={n_min}")
        super().__init__(mode, style)
        self.revise_templates = guided_templates(self._compact)
        if self._official and self._compact:
            raise ValueError(
                "rltf.env.style=compact: the release's grader (rltf.env.mode=official) reads no"
                " rows of digits; set rltf.env.mode=strict, or rltf.env.style=official"
            )
        self._n_min, self._n_max = n_min, n_max

    def prompt(self, problem: Problem) -> str:
        """The user message of the first turn. `compact` is the matrix alone, as lines of digits."""
        rows = self._write(problem.data["matrix"])
        return rows if self._compact else QUESTION.format(matrix=rows)

    def grade(self, problem: Problem, text: str) -> Grade:
        r"""Grade the boxed matrix; `strict` takes the last matrix in the text if there is no
        `\boxed{}`."""
        if self._official:
            return _grade_official(problem.data["solution"], text)
        cells = self._read(problem, text)
        if cells is None:
            return Grade(correct=False, format_ok=False)
        return Grade(
            correct=cells == problem.data["solution"], format_ok=True, parsed=self._write(cells)
        )

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Say which cells are wrong (`location`), in which direction (`hint`) or what they should
        be (`full`).

        Every message is one line. Levels below `full` name no value of the solution. `compact`
        marks every cell, rows separated by `/`: `=` right, `x` wrong (`location`); `<` too small,
        `>` too large, `?` unreadable (`hint`); the same with what is right behind it, `=0<2`
        (`full`).
        """
        if grade.correct and not self._compact:
            return CORRECT
        if level == "verdict":
            return verdict(grade)
        cells, solution = self._read(problem, text), problem.data["solution"]
        text = diagnosis(cells, solution, level, self._compact)
        return text if self._compact else f"{INCORRECT} {text}"

    def candidates(self, problem: Problem, text: str, attempt: str) -> Sequence[Candidate]:
        """Matrices, rows, columns and cells of the answer that a text states, for the leak
        guard.
        """
        matrix: Matrix = problem.data["matrix"]
        grid = self._read(problem, attempt)
        given = None
        if grid is not None and is_square(grid, len(matrix)):
            # no distance is −1: it marks an unreadable cell
            given = [[-1 if cell is None else cell for cell in row] for row in grid]
        return distance_candidates(matrix, problem.data["solution"], text, given)

    def _read(self, problem: Problem, text: str) -> Cells | None:
        n = len(problem.data["solution"])
        if not self._official:
            box = last_box(text)
            return find_grid(text, n) if box is None else read_grid(box, n)
        box = released_box(text)
        return None if box is None else read_grid(box, n)

    def _write(self, grid: Cells | Matrix) -> str:
        cells = [["?" if cell is None else str(cell) for cell in row] for row in grid]
        tight = self._compact and all(len(cell) == 1 for row in cells for cell in row)
        between = "" if tight else " "
        return "\n".join(map(between.join, cells))

    def _problem(self, index: int, matrix: Matrix) -> Problem:
        solution = _distances(matrix)
        data = {"matrix": matrix, "solution": solution, "n": len(matrix)}
        return Problem(env=self.name, index=index, data=data, reference=self._write(solution))

    def _draw_size(self, rng: random.Random) -> int:
        return rng.randint(self._n_min, self._n_max)

    def _release_items(self, seed: int, num: int) -> list[Matrix]:
        rng = random.Random(seed)
        return [_draw(rng, self._draw_size(rng)) for _ in range(num)]

    def _strict_items(
        self, rng: random.Random, num: int, taken: set[str], *, distinct: bool
    ) -> list[Matrix]:
        drawn: list[Matrix] = []
        count: Counter[int] = Counter()
        for _ in range(num):
            n = self._draw_size(rng)
            count[n] += distinct
            # Half of all matrices that hold a 0 stay for training; it also bounds how often a draw
            # is repeated.
            if count[n] > (most := (2 ** (n * n) - 1) // 2):
                raise ValueError(
                    f"num_test={num} needs more than {most} different {n} by {n} matrices, which"
                    " would leave too few for training: lower num_test, or raise rltf.env.n_min"
                    f" (now {self._n_min})"
                )
            while str(matrix := _draw(rng, n)) in taken:
                pass
            drawn.append(matrix)
            if distinct:
                taken.add(str(matrix))
        return drawn


def _draw(rng: random.Random, n: int) -> Matrix:
    """One n×n matrix. The order of the calls to `rng` is the release's: do not change it."""
    cells = [0] + [0 if rng.random() < P_ZERO else 1 for _ in range(n * n - 1)]
    rng.shuffle(cells)
    return [cells[i : i + n] for i in range(0, n * n, n)]


def _distances(matrix: Matrix) -> Matrix:
    """Nothing blocks the way, so the shortest path to a 0 is as long as the Manhattan distance to
    it.
    """
    zeros = [(r, c) for r, row in enumerate(matrix) for c, cell in enumerate(row) if cell == 0]
    size = range(len(matrix))
    return [[min(abs(r - zr) + abs(c - zc) for zr, zc in zeros) for c in size] for r in size]


def _grade_official(solution: Matrix, text: str) -> Grade:
    boxed = released_box(text)
    if boxed is None:
        return Grade(correct=False, format_ok=False)
    wanted = _cells_text(solution)
    correct = " ".join(boxed.split()) == wanted or _literal(boxed) == wanted
    return Grade(correct=correct, format_ok=True, parsed=boxed)


def _literal(boxed: str) -> str | None:
    """The cells of a Python list of rows, in order; how many rows there are is not compared by the
    release.
    """
    try:
        value = ast.literal_eval(boxed)
        return _cells_text(value) if isinstance(value, list) else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _cells_text(rows: list[list[Any]]) -> str:
    return " ".join(" ".join(map(str, row)) for row in rows)
