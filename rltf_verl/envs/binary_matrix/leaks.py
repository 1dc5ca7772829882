"""Finds where a text states the distances of a 0/1 matrix: all of them, a row or column, or a cell.

Values visible in the matrix or the attempt do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rltf_verl.envs.base import Candidate
from rltf_verl.envs.text.plain_text import BACKWARDS, MAX_TEXT, cue_before

Matrix = list[list[int]]
_Numbers = list[tuple[int, int, int]]
"""(start, end, value) of each."""

MAX_NUMBERS = 1200
"""Numbers of a text that are looked at."""
MAX_GAP = 60
"""Characters between two numbers of one grid."""
LINE_GAP = 8
"""The same for one row or column."""

_QUOTES = re.compile(
    r"\b(?:you|your|yours|input|given|question|original|problem|starting|attempt)\b", re.IGNORECASE
)
_TELLS = re.compile(
    r"\b(?:answer|solution|should|must|correct|right|true|result|output|final|need|distances?|expected)\b",
    re.IGNORECASE,
)
_COLUMNS = re.compile(r"\bcolumns?\b|\btranspos|\bvertical|\btop to bottom\b", re.IGNORECASE)
_LINE = re.compile(r"\b(?:row|line|col(?:umn)?)\b", re.IGNORECASE)
_LABEL = re.compile(
    r"\b(?:rows?|lines?|cols?|columns?|r|c|step)[\s#]{0,3}\d{1,2}\b|\d(?:st|nd|rd|th)\b"
    r"|^[ \t]{0,4}\d{1,2}[.):](?=\s)",
    re.IGNORECASE | re.MULTILINE,
)
"""`row 1` in front of its numbers."""
# Whole numbers: not `x2`, `2nd`, `0.5` or `2.5`, but `2.0`, and `2.` at the end of a sentence.
_NUMBER = re.compile(r"(?<![\w.])\d{1,25}(?!\w|\.[1-9])", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Stated:
    """`text[start:end]` gives a cell, counted from 0, this value."""

    start: int
    end: int
    row: int
    column: int
    value: int


def distance_candidates(
    matrix: Matrix, solution: Matrix, text: str, attempt: Matrix | None
) -> list[Candidate]:
    """Passages that may give away the solution, or a row, a column or a cell of it.

    Args:
        matrix: the question's.
        solution: its distances.
        text: the feedback, as a reading.
        attempt: the answer that it is about, if it is a grid of this size.
    """
    text = text[:MAX_TEXT]
    answer = _answer(solution)
    grids, lines = (find(matrix, solution, text, attempt) for find in (_grids, _lines))
    # what the attempt has itself, a text cannot give away
    cells = [c for c in _cells(text, matrix) if attempt is None or not _agrees(c, attempt)]
    return [
        *(Candidate(*span, answer) for span in grids),
        *(Candidate(*span, answer, part=True) for span in lines),
        *(Candidate(c.start, c.end, _answer(solution, c), part=True) for c in cells),
    ]


def _answer(solution: Matrix, cell: _Stated | None = None) -> str:
    """The solution, with the stated cell put in."""
    grid = [list(row) for row in solution]
    if cell is not None:
        grid[cell.row][cell.column] = cell.value
    rows = "\n".join(" ".join(map(str, row)) for row in grid)
    return f"\\boxed{{{rows}}}"


def _agrees(cell: _Stated, grid: Matrix) -> bool:
    return grid[cell.row][cell.column] == cell.value


def _grids(
    matrix: Matrix, solution: Matrix, text: str, attempt: Matrix | None
) -> Iterator[tuple[int, int]]:
    """Places of the solution, in the orders that the text mentions."""
    orders = [solution]
    if BACKWARDS.search(text):
        # Each row from its end; all of it from its end.
        orders += [[row[::-1] for row in solution], [row[::-1] for row in solution[::-1]]]
    if _COLUMNS.search(text):
        orders.append([list(column) for column in zip(*solution, strict=True)])
    lists = list(_number_lists(text, MAX_GAP))
    for order in orders:
        quoted = order == matrix
        if order == attempt or (quoted and order != solution):
            continue
        for start, end in _places([value for row in order for value in row], lists):
            cue = cue_before(text, start)
            if not quoted or _TELLS.search(cue) or not _QUOTES.search(cue):
                yield start, end


def _lines(
    matrix: Matrix, solution: Matrix, text: str, attempt: Matrix | None
) -> Iterator[tuple[int, int]]:
    """Places where the numbers of a row or column follow that word."""
    lists = list(_number_lists(text, LINE_GAP))
    rows = [grid for grid in (solution, matrix, attempt) if grid is not None]
    columns = [[list(column) for column in zip(*grid, strict=True)] for grid in rows]
    for grids in (rows, columns):
        # A line of the solution, and the same line of the question and of the attempt, which are no
        # news.
        for line, *shown in zip(*grids, strict=True):
            for start, end in _places(line, lists) if line not in shown else ():
                if _LINE.search(cue_before(text, start)):
                    yield start, end


def _places(wanted: list[int], lists: list[_Numbers]) -> Iterator[tuple[int, int]]:
    """Places of these numbers, one after the other."""
    for values in lists:
        for i in range(len(values) - len(wanted) + 1):
            window = values[i : i + len(wanted)]
            if [value for _, _, value in window] == wanted:
                yield window[0][0], window[-1][1]


def _number_lists(text: str, most_gap: int) -> Iterator[_Numbers]:
    """Numbers close together, without labels: each list once as numbers and once as digits."""
    shown = _LABEL.sub(lambda label: " " * len(label[0]), text)
    run: list[re.Match[str]] = []
    for num, number in enumerate(_NUMBER.finditer(shown)):
        if num == MAX_NUMBERS:
            break
        gap = shown[run[-1].end() : number.start()] if run else ""
        if len(gap) > most_gap or "\n\n" in gap:
            yield from _as_values(run)
            run = []
        run.append(number)
    yield from _as_values(run)


def _as_values(run: list[re.Match[str]]) -> Iterator[_Numbers]:
    # `012` may be the number 12, or the cells 0, 1 and 2.
    yield [(*number.span(), int(number[0])) for number in run]
    yield [(*number.span(), int(digit)) for number in run for digit in number[0]]


_INDEX = r"(?<!\d)\d{1,2}"
"""Longer numbers name no cell; without the bound a long row of digits would be looked at again from
each of them.
"""
# Between row and column: `, `, ` of the `, ` and `.
_JOIN = r"\W{1,3}(?:(?:and|of|in)\s+)?(?:the\s+)?"
_NTH = r"(?:st|nd|rd|th)\s+"
# `(1,2)`; `[1,2]`, `[1][2]`; `row 1, column 2`; `column 2 of row 1`; `1st row, 2nd column`; `2nd
# cell of row 1`, `2nd cell of the 1st row`
_CELL = re.compile(
    rf"\(\s*(?P<r1>{_INDEX})\s*,\s*(?P<c1>{_INDEX})\s*\)"
    rf"|\[\s*(?P<r2>{_INDEX})\s*(?:,|\]\s*\[)\s*(?P<c2>{_INDEX})\s*\]"
    rf"|row\s+(?P<r3>{_INDEX}){_JOIN}col(?:umn)?\s+(?P<c3>{_INDEX})"
    rf"|col(?:umn)?\s+(?P<c4>{_INDEX}){_JOIN}row\s+(?P<r4>{_INDEX})"
    rf"|(?P<r5>{_INDEX}){_NTH}row{_JOIN}(?P<c5>{_INDEX}){_NTH}col(?:umn)?"
    rf"|(?P<c6>{_INDEX}){_NTH}(?:cell|value|entry|number|element|col(?:umn)?){_JOIN}"
    rf"(?:row\s+(?P<r6>{_INDEX})|(?P<r7>{_INDEX}){_NTH}row)",
    re.IGNORECASE | re.ASCII,
)
_PLACE = "\ue000\ue001*(?!\ue001)"
"""Private characters that replace a cell's name in the text while claims are looked for."""
# `should be`, `must then read`, `the correct value is`, `is actually`
_MUST = (
    r"(?:(?:should|must|ought\s+to|has\s+to|have\s+to|needs?\s+to|is\s+supposed\s+to|shall|would)\s+"
    r"(?:\w{1,20}\s+){0,2}?(?:be|become|read|equal|hold|have|contain|say|show)"
    r"|(?:the|a)\s+(?:correct|right|true|actual|proper|expected)\s+(?:value|distance|entry|number|answer)\s*(?:is|:|=)"
    r"|correctly\s+(?:is|has)|is\s+(?:really|actually|in\s+fact|correctly))"
)
# `a value of 2`, but not `2 by 3`, `2, 3`, `2 or`, `2 more`
_VALUE = (
    r"(?:an?\s+|the\s+)?(?:value\s+|number\s+|distance\s+)?(?:of\s+)?(?<!\d)(?P<value>\d{1,3})\b"
    r"(?!\s*(?:,|by\b|x|×)\s*\d|\s+(?:or|more|less|fewer|larger|smaller|greater|bigger|higher|lower)\b)"
)
# `you set (1,2) to 3` tells what the attempt has.
_NOT_YOU = r"(?<!you )(?<!you have )(?<!you had )"
# `(1,2) should be 3`; `change (1,2) to 3`; `write 3 at (1,2)`
_SURE = (
    rf"{_PLACE}[^.\n;]{{0,40}}?{_MUST}\s+{_VALUE}",
    rf"{_NOT_YOU}(?:set|change|make|replace|correct|fix|update|turn)"
    rf"\s[^.\n;]{{0,40}}?{_PLACE}[^.\n;]{{0,25}}?(?:to|with|by|as|into|be|=)\s+{_VALUE}",
    rf"{_NOT_YOU}(?:put|write|use|enter|place)\s+{_VALUE}\s+(?:at|in|into|for|on)\s[^.\n;]{{0,25}}?{_PLACE}",
)
# `(1,2) = 3`, `(1,2): 3`, `(1,2) is 3`: may also quote the question.
_BARE = rf"{_PLACE}[\s\w,]{{0,25}}?(?:=|:|->|→|\bis\b|\bequals\b|\bhas\s+distance\b)\s*{_VALUE}"
_CLAIMS = [
    (re.compile(pattern, re.IGNORECASE | re.ASCII), pattern != _BARE) for pattern in (*_SURE, _BARE)
]


def _cells(text: str, matrix: Matrix) -> Iterator[_Stated]:
    """Single cells that the text gives a value."""
    n, places = len(matrix), {}
    for match in _CELL.finditer(text):
        row, column = (
            # Groups r1 to r7 and c1 to c6: of each letter the one that has matched.
            next(int(v) for k, v in match.groupdict().items() if k[0] == side and v)
            for side in "rc"
        )
        # Counted from 1, as the project's own feedback does, unless there is a 0.
        first = 0 if 0 in (row, column) else 1
        places[match.start()] = row - first, column - first
    # The length stays, so that places are the same in both; the text's own private characters would
    # pass for cells.
    encoded = _CELL.sub(
        lambda match: "\ue000".ljust(len(match[0]), "\ue001"), text.replace("\ue000", " ")
    )
    for pattern, sure in _CLAIMS:
        for claim in pattern.finditer(encoded):
            row, column = places[encoded.index("\ue000", claim.start())]
            if row >= n or column >= n:
                continue
            cell = _Stated(*claim.span(), row, column, int(claim["value"]))
            quoted = _QUOTES.search(cue_before(text, claim.start()))
            news = not _agrees(cell, matrix) and not quoted
            # A 0 of the question is a 0 of the answer: the policy can see it.
            if news or (sure and matrix[row][column] != 0):
                yield cell
