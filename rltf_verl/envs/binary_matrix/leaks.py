"""Where a text states the distances of a 0/1 matrix: all of them, a row or column, or a cell.

What the matrix and the attempt show as well is no news.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from rltf_verl.envs.base import Candidate
from rltf_verl.envs.text.plain_text import BACKWARDS, MAX_TEXT, cue_before

Matrix = list[list[int]]

MAX_NUMBERS = 1200
"""Numbers of a text that are looked at."""
MAX_GAP = 60
"""Characters between two numbers of one grid."""

_QUOTES = re.compile(
    r"\b(?:you|your|yours|input|given|question|original|problem|starting|attempt)\b", re.IGNORECASE
)
_TELLS = re.compile(
    r"\b(?:answer|solution|should|must|correct|right|true|result|output|final|need|distances?|expected)\b",
    re.IGNORECASE,
)
_COLUMNS = re.compile(r"\bcolumns?\b|\btranspos|\bvertical|\btop to bottom\b", re.IGNORECASE)
_LABEL = re.compile(
    r"\b(?:rows?|lines?|cols?|columns?|r|c|step)[\s#]{0,3}\d{1,2}\b|\d(?:st|nd|rd|th)\b"
    r"|^[ \t]{0,4}\d{1,2}[.):](?=\s)",
    re.IGNORECASE | re.MULTILINE,
)
"""`row 1` in front of its numbers."""
_NUMBER = re.compile(r"(?<![\w.])\d{1,25}(?!\w|\.[1-9])", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Stated:
    """`text[start:end]` gives these cells a value."""

    start: int
    end: int
    cells: tuple[tuple[int, int, int], ...]
    """(row, column, value), from 0."""
    cue: str
    """The words of the sentence that introduce them."""


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
    whole = [
        Candidate(start, end, _answer(solution))
        for start, end in _grids(matrix, solution, text, attempt)
    ]
    parts = (
        part
        for part in (*_lines(text, matrix), *_cells(text, matrix))
        if attempt is None or not _agrees(part, attempt)
    )
    return [*whole, *(Candidate(p.start, p.end, _answer(solution, p), part=True) for p in parts)]


def _answer(solution: Matrix, part: _Stated | None = None) -> str:
    """The solution, with the stated cells put in."""
    grid = [list(row) for row in solution]
    for row, column, value in part.cells if part else ():
        grid[row][column] = value
    rows = "\n".join(" ".join(map(str, row)) for row in grid)
    return f"\\boxed{{{rows}}}"


def _agrees(part: _Stated, grid: Matrix) -> bool:
    return all(grid[row][column] == value for row, column, value in part.cells)


def _grids(
    matrix: Matrix, solution: Matrix, text: str, attempt: Matrix | None
) -> Iterator[tuple[int, int]]:
    """Where the solution stands, in the orders that the text mentions."""
    orders = [solution]
    if BACKWARDS.search(text):
        orders += [[row[::-1] for row in solution], [row[::-1] for row in solution[::-1]]]
    if _COLUMNS.search(text):
        orders.append([list(column) for column in zip(*solution, strict=True)])
    for order in orders:
        quoted = order == matrix
        if order == attempt or (quoted and order != solution):
            continue
        wanted = [value for row in order for value in row]
        for values in _number_lists(text):
            for i in range(len(values) - len(wanted) + 1):
                window = values[i : i + len(wanted)]
                if [value for _, _, value in window] != wanted:
                    continue
                cue = cue_before(text, window[0][0])
                if not quoted or _TELLS.search(cue) or not _QUOTES.search(cue):
                    yield window[0][0], window[-1][1]


def _number_lists(text: str) -> Iterator[list[tuple[int, int, int]]]:
    """(start, end, value) of numbers that stand close together, without labels: each list once as
    numbers and once as digits.
    """
    shown = _LABEL.sub(lambda label: " " * len(label[0]), text)
    run: list[re.Match[str]] = []
    for num, number in enumerate(_NUMBER.finditer(shown)):
        if num == MAX_NUMBERS:
            break
        gap = shown[run[-1].end() : number.start()] if run else ""
        if len(gap) > MAX_GAP or "\n\n" in gap:
            yield from _as_values(run)
            run = []
        run.append(number)
    yield from _as_values(run)


def _as_values(run: list[re.Match[str]]) -> Iterator[list[tuple[int, int, int]]]:
    yield [(*number.span(), int(number[0])) for number in run]
    yield [(*number.span(), int(digit)) for number in run for digit in number[0]]


_ENDS = {"top": 0, "upper": 0, "leftmost": 0, "last": -1, "bottom": -1, "rightmost": -1}
_LINE_NAME = (
    rf"\b(?:(?P<kind>row|col(?:umn)?)\s+(?:number\s+)?\#?(?P<nth>\d{{1,2}})"
    rf"|(?:(?<!\d)(?P<th>\d{{1,2}})(?:st|nd|rd|th)|(?P<end>{'|'.join(_ENDS)}))"
    r"\s+(?P<kind2>row|line|col(?:umn)?))\b"
)
_BETWEEN = r"(?:[ \t,;|&/→>-]{1,6}(?:(?:and|then|followed by)[ \t]+(?:an?[ \t]+)?)?)"


@lru_cache
def _line_pattern(n: int) -> re.Pattern[str]:
    """A line's name and its n numbers: `the 2nd row is 0 1 2`, `row 2: 012`."""
    spaced = rf"\d{{1,2}}(?:{_BETWEEN}\d{{1,2}}){{{n - 1}}}"
    values = rf"(?<![\d.])(?P<values>{spaced}|\d{{{n}}})(?![\w]|\.\d|{_BETWEEN}\d)"
    return re.compile(rf"{_LINE_NAME}(?P<cue>[^.\n\d]{{0,40}}?){values}", re.IGNORECASE | re.ASCII)


def _lines(text: str, matrix: Matrix) -> Iterator[_Stated]:
    """Rows and columns that the text names and spells."""
    n = len(matrix)
    for line in _line_pattern(n).finditer(text):
        digits = line["nth"] or line["th"]
        index = int(digits) - 1 if digits else _ENDS[line["end"].lower()] % n
        if not 0 <= index < n:
            continue
        numbers = re.findall(r"\d+", line["values"])
        values = map(int, numbers if len(numbers) == n else line["values"])
        is_row = (line["kind"] or line["kind2"]).lower() in ("row", "line")
        cells = tuple((index, k, v) if is_row else (k, index, v) for k, v in enumerate(values))
        stated = _Stated(*line.span(), cells, cue_before(text, line.start()) + line["cue"])
        quoted = _agrees(stated, matrix) or _QUOTES.search(stated.cue)
        if _TELLS.search(stated.cue) or not quoted:
            yield stated


_INDEX = r"(?<!\d)\d{1,2}"
"""Longer numbers name no cell; without the bound a long row of digits would be looked at again from
each of them.
"""
_JOIN = r"\W{1,3}(?:(?:and|of|in)\s+)?(?:the\s+)?"
_NTH = r"(?:st|nd|rd|th)\s+"
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
"""A cell's name, which stands in the text as private characters while claims are looked for."""
_MUST = (
    r"(?:(?:should|must|ought\s+to|has\s+to|have\s+to|needs?\s+to|is\s+supposed\s+to|shall|would)\s+"
    r"(?:\w{1,20}\s+){0,2}?(?:be|become|read|equal|hold|have|contain|say|show)"
    r"|(?:the|a)\s+(?:correct|right|true|actual|proper|expected)\s+(?:value|distance|entry|number|answer)\s*(?:is|:|=)"
    r"|correctly\s+(?:is|has)|is\s+(?:really|actually|in\s+fact|correctly))"
)
_VALUE = (
    r"(?:an?\s+|the\s+)?(?:value\s+|number\s+|distance\s+)?(?:of\s+)?(?<!\d)(?P<value>\d{1,3})\b"
    r"(?!\s*(?:,|by\b|x|×)\s*\d|\s+(?:or|more|less|fewer|larger|smaller|greater|bigger|higher|lower)\b)"
)
_NOT_YOU = r"(?<!you )(?<!you have )(?<!you had )"
_SURE = (
    rf"{_PLACE}[^.\n;]{{0,40}}?{_MUST}\s+{_VALUE}",
    rf"{_NOT_YOU}(?:set|change|make|replace|correct|fix|update|turn)"
    rf"\s[^.\n;]{{0,40}}?{_PLACE}[^.\n;]{{0,25}}?(?:to|with|by|as|into|be|=)\s+{_VALUE}",
    rf"{_NOT_YOU}(?:put|write|use|enter|place)\s+{_VALUE}\s+(?:at|in|into|for|on)\s[^.\n;]{{0,25}}?{_PLACE}",
    rf"(?:correct|right|true|actual|proper|expected)\s+(?:value|distance|entry|number|answer)\s+(?:at|of|for|in)\s"
    rf"[^.\n;]{{0,25}}?{_PLACE}\s*(?:is|:|=|equals)\s*{_VALUE}",
)
_BARE = rf"{_PLACE}[\s\w,]{{0,25}}?(?:=|:|->|→|\bis\b|\bequals\b|\bhas\s+distance\b)\s*{_VALUE}"
_CLAIMS = [
    (re.compile(pattern, re.IGNORECASE | re.ASCII), pattern != _BARE) for pattern in (*_SURE, _BARE)
]


def _cells(text: str, matrix: Matrix) -> Iterator[_Stated]:
    """Single cells that the text gives a value."""
    n, places = len(matrix), {}
    for match in _CELL.finditer(text):
        row, column = (
            next(int(v) for k, v in match.groupdict().items() if k[0] == side and v)
            for side in "rc"
        )
        # Counted from 1, as the project's own feedback does, unless there is a 0.
        first = 0 if 0 in (row, column) else 1
        places[match.start()] = row - first, column - first
    encoded = _CELL.sub(
        lambda match: "\ue000".ljust(len(match[0]), "\ue001"), text.replace("\ue000", " ")
    )
    for pattern, sure in _CLAIMS:
        for claim in pattern.finditer(encoded):
            row, column = places[encoded.index("\ue000", claim.start())]
            if row >= n or column >= n:
                continue
            cell = (row, column, int(claim["value"]))
            stated = _Stated(*claim.span(), (cell,), cue_before(text, claim.start()))
            news = not _agrees(stated, matrix) and not _QUOTES.search(stated.cue)
            # A 0 of the question is a 0 of the answer: the policy can see it.
            if news or (sure and matrix[row][column] != 0):
                yield stated
