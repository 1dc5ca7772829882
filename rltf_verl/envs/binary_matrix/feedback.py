"""A program's feedback on a wrong grid of distances: which cells, in which direction, or their
right values.
"""

from __future__ import annotations

from rltf_verl.envs.base import FeedbackLevel
from rltf_verl.envs.binary_matrix.text import Cells, is_square

NO_ANSWER = "No matrix was found in \\boxed{}."
BAD_FORM = "All values are right, but write one row per line, with spaces between the numbers."
NUMBERING = "Cells are named (row,column), counted from 1."


def diagnosis(
    cells: Cells | None, solution: list[list[int]], level: FeedbackLevel, compact: bool
) -> str:
    """The fault of an answer, in a line; see `BinaryMatrix.explain`.

    Args:
        cells: the answer as it was read; None: unreadable.
        solution: the right one.
        level: above `verdict`.
        compact: a sign per cell, no words.
    """
    n, describe = len(solution), _marks if compact else _sentences
    if cells is not None and is_square(cells, n):
        return describe(cells, solution, level)
    trouble = NO_ANSWER if cells is None else f"The answer is not a {n} by {n} matrix."
    if level != "full":
        return trouble
    unread = describe([[None] * n] * n, solution, level)
    return unread if compact else f"{trouble} {unread}"


def _sentences(cells: Cells, solution: list[list[int]], level: FeedbackLevel) -> str:
    wrong = []
    for r, rows in enumerate(zip(cells, solution, strict=True), start=1):
        for c, (given, wanted) in enumerate(zip(*rows, strict=True), start=1):
            if given != wanted:
                wrong.append(_say(f"({r},{c})", given, wanted, level))
    if not wrong:  # the release refuses some forms of a right answer
        return BAD_FORM
    return f"{NUMBERING} Wrong cells: {'; '.join(wrong)}."


def _say(cell: str, given: int | None, wanted: int, level: FeedbackLevel) -> str:
    if level == "location":
        return cell
    if level == "full":
        return f"{cell} should be {wanted}"
    if given is None:
        return f"{cell} is not a whole number"
    return f"{cell} is too {'small' if given < wanted else 'large'}"


def _marks(cells: Cells, solution: list[list[int]], level: FeedbackLevel) -> str:
    rows = []
    for given_row, wanted_row in zip(cells, solution, strict=True):
        pairs = zip(given_row, wanted_row, strict=True)
        rows.append("".join(_mark(given, wanted, level) for given, wanted in pairs))
    return "/".join(rows)


def _mark(given: int | None, wanted: int, level: FeedbackLevel) -> str:
    if level == "location":
        return "=" if given == wanted else "x"
    if given is None:
        sign = "?"
    elif given == wanted:
        sign = "="
    else:
        sign = "<" if given < wanted else ">"
    return f"{sign}{wanted}" if level == "full" else sign
