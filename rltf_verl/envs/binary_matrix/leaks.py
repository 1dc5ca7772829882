"""What a text says about the distances of a 0/1 matrix that neither the matrix nor the attempt
says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from rltf_verl.envs.base import Candidate
from rltf_verl.envs.binary_matrix.leaks_cells import stated_cells
from rltf_verl.envs.binary_matrix.leaks_grids import stated_grids, stated_lines
from rltf_verl.envs.binary_matrix.leaks_readings import whole_grids
from rltf_verl.envs.text.plain_text import MAX_TEXT
from rltf_verl.envs.text.stated import Matrix, Stated, plain, word_ends

KnownCell = Callable[[int, int, int], bool]
"""(row, column, value) -> the policy had this value there."""

_OWN = re.compile(
    r"\b(?:your|previous)\s+(?:\w+\s+)?(?:answer|solution|result|output|matrix)\b", re.IGNORECASE
)
_QUOTES = re.compile(
    r"\b(?:you|your|yours|input|given|question|original|problem|starting|attempt)\b", re.IGNORECASE
)
_TELLS = re.compile(
    r"\b(?:answer|solution|should|must|correct|right|true|result|output|final|need|distances?|expected)\b",
    re.IGNORECASE,
)


def distance_candidates(
    matrix: Matrix, solution: Matrix, text: str, known: KnownCell, attempt: Matrix | None = None
) -> list[Candidate]:
    """Passages that may give away the solution, or a row, a column or a cell of it.

    Numbers that the question shows as well are no news: a matrix or row that equals the question's
    counts only if the text does not introduce it as such, and a cell only if the text says that it
    should be so. Parts that the attempt had right are no news either.
    """
    text = text[:MAX_TEXT]
    shown, n = plain(text), len(solution)
    cells = list(stated_cells(shown, n))
    grids = [*stated_grids(shown, n), *_complete([cell for cell, _ in cells], n)]
    if "column" in shown.lower():
        grids += [_transposed(grid) for grid in grids]
    parts = [*_lines(shown, matrix, n), *_cells(cells, matrix)]
    news = [part for part in parts if not all(known(*cell) for cell in part.cells)]
    whole = [(grid, False) for grid in whole_grids(text, matrix, solution, attempt)]
    told = [
        *whole,
        *((grid, False) for grid in grids if not _quoted(grid, matrix)),
        *((part, True) for part in news),
    ]
    ends = word_ends(text)
    return [
        Candidate(
            stated.start, ends.get(stated.end, stated.end), _as_answer(stated, solution), part
        )
        for stated, part in told
    ]


def _complete(cells: list[Stated], n: int) -> Iterator[Stated]:
    """The grid, if the single cells that a text gives are all of them."""
    stated = {(r, c): value for cell in cells for r, c, value in cell.cells}
    if len(stated) == n * n:
        values = tuple((r, c, value) for (r, c), value in stated.items())
        yield Stated(min(cell.start for cell in cells), max(cell.end for cell in cells), values, "")


def _transposed(grid: Stated) -> Stated:
    return Stated(
        grid.start, grid.end, tuple((c, r, value) for r, c, value in grid.cells), grid.cue
    )


def _lines(shown: str, matrix: Matrix, n: int) -> Iterator[Stated]:
    for line in stated_lines(shown, n):
        if _tells(line.cue) or not (_in(line, matrix) or _QUOTES.search(line.cue)):
            yield line


def _cells(cells: list[tuple[Stated, bool]], matrix: Matrix) -> Iterator[Stated]:
    for cell, sure in cells:
        news = not _in(cell, matrix) and not _QUOTES.search(cell.cue)
        # A cell that is 0 in the question is 0 in the answer: everybody knows.
        if news or (sure and not all(matrix[r][c] == 0 for r, c, _ in cell.cells)):
            yield cell


def _quoted(grid: Stated, matrix: Matrix) -> bool:
    return _in(grid, matrix) and bool(_QUOTES.search(grid.cue)) and not _tells(grid.cue)


def _tells(cue: str) -> bool:
    return bool(_TELLS.search(_OWN.sub("your", cue)))


def _in(stated: Stated, matrix: Matrix) -> bool:
    return all(matrix[r][c] == value for r, c, value in stated.cells)


def _as_answer(stated: Stated, solution: Matrix) -> str:
    """The solution with the stated cells put in."""
    grid = [list(row) for row in solution]
    for r, c, value in stated.cells:
        grid[r][c] = value
    rows = "\n".join(" ".join(map(str, row)) for row in grid)
    return f"\\boxed{{{rows}}}"
