r"""Read an n×n grid of whole numbers that someone wrote down, in whatever way they wrote it.

Understood: numbers separated by spaces, commas, `|` or nothing ("010"); rows on lines, in brackets
or parentheses, separated by `;` or LaTeX's `\\`; or all n² cells in one flat row. Sizes are n >= 2.
"""

from __future__ import annotations

import re

Cells = list[list[int | None]]
"""Rows of cells; None for anything but a whole number."""

# `\begin{bmatrix}`, `\end{array*}`, `\begin{array}{c|c}`
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{\w*\*?\}(?:\{[clr|\s]*\})?")
# `\text`, `\,`, and single signs of LaTeX, code and tables
_MARKUP = re.compile(r"""\\[a-zA-Z]+|\\[,;:! ]|[`$&{}"'|\\]""")
# `\\`, `\\[2pt]`
_LATEX_ROW_END = re.compile(r"\\\\(?:\s*\[[^\][\n]{0,20}\])?")
_RULE = re.compile(r"^(?=[^-\n]*-)[|:\- \t]+$", re.MULTILINE)
"""Under the head of a Markdown table."""
_ROW_END = re.compile(r"[\r\n;\])]")
_CELL = re.compile(r"[^\s,\[(]+")
# `2`, `-1`, `2.0`
_WHOLE = re.compile(r"(-?[0-9]{1,9})(?:\.0*)?")
_RUN = re.compile(r"[0-9\s,;\[\]()-]+")


def read_grid(text: str, n: int) -> Cells | None:
    """The grid that all of `text` is; of any shape; None if it has no number."""
    grid = [[_number(cell) for cell in row] for row in _rows(_plain(text), n)]
    return grid if any(cell is not None for row in grid for cell in row) else None


def find_grid(text: str, n: int) -> Cells | None:
    """The last n×n grid among other words; else the last stretch of two or more rows of numbers;
    else None.
    """
    fallback: Cells | None = None
    for run in reversed(_RUN.findall(_plain(text))):
        grid = read_grid(run, n)
        if grid is not None and is_square(grid, n):
            return grid
        # The last such stretch: the answer is at the end.
        if grid is not None and fallback is None and len(grid) > 1:
            fallback = grid
    return fallback


def is_square(grid: Cells, n: int) -> bool:
    """True if the grid has n rows of n cells."""
    return len(grid) == n and all(len(row) == n for row in grid)


def _plain(text: str) -> str:
    """Without LaTeX and code marks; its row ends become line ends."""
    text = _LATEX_ROW_END.sub("\n", text)  # first: in `\\\end` the first two belong together
    text = _RULE.sub("", text)
    return _MARKUP.sub(" ", _ENVIRONMENT.sub("\n", text))


def _rows(text: str, n: int) -> list[list[str]]:
    rows = [cells for line in _ROW_END.split(text) if (cells := _CELL.findall(line))]
    if len(rows) == 1:
        # One row: n² cells side by side, or n² digits in one word.
        flat = rows[0] if len(rows[0]) > 1 else list(rows[0][0])
        if len(flat) == n * n:
            return [flat[i : i + n] for i in range(0, n * n, n)]
    # A row that is one word of n signs, `010`, has a cell for each.
    return [list(row[0]) if len(row) == 1 and len(row[0]) == n else row for row in rows]


def _number(cell: str) -> int | None:
    number = _WHOLE.fullmatch(cell)
    return int(number[1]) if number else None
