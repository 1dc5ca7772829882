"""Whole grids, however a text lists them: in any order, shifted or doubled, by their values, by a
rule and exceptions.

What is read counts only if it is the whole solution. Reads a text with digits for number words
(`readings`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from rltf_verl.envs.text.encodings import BACKWARDS
from rltf_verl.envs.text.stated import Matrix, Stated, cue_before

MAX_NUMBERS = 1200
MAX_GAP = 60
"""Characters between two numbers of one list."""
MAX_VALUE = 40

_LABEL = re.compile(
    r"\b(?:rows?|lines?|cols?|columns?|zeile|spalte|ligne|colonne|fila|columna|riga|colonna|linha|coluna|rij|wiersz|"
    r"строка|r|c|step|reihe)[\s#]{0,3}\d{1,2}\b(?:\s?(?:,|to|and)\s?\d\b)?|第\s?\d\s?[行列]|\d(?:st|nd|rd|th)\b|\d{1,2}\s?번?째?\s?행|"
    r"^[ \t]{0,4}\d{1,2}[.):](?=\s)",
    re.IGNORECASE | re.MULTILINE,
)
_REPEATED = re.compile(r"(?<![\w.,])(\d{1,2})\s{0,2}(?:[x×]\s?)?(\d)s\b")
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,25}(?![\w]|\.\d)", re.ASCII)
_CHANGED = re.compile(
    r"\b(?:subtract\w*|add\w*|less|more|lower|higher|plus|minus|doubl\w*|half|halve\w*|twice|each|every|shift\w*|times|"
    r"divide\w*|multipl\w*|decrease\w*|increase\w*|reduc\w*|off|larger|smaller|complement|letters?)\b|[a-z]\s?=\s?\d",
    re.IGNORECASE,
)
_COLUMNS = re.compile(
    r"\b(?:columns?|transpos\w*|top\s+to\s+bottom|downwards?|vertical\w*|spalten?|colonnes?|columnas?|colonne|colunas?|"
    r"kolom\w*)\b|列",
    re.IGNORECASE,
)
_PLACE = re.compile(r"[(\[]\s?(\d{1,2})\s?[,;]\s?(\d{1,2})\s?[)\]]|\[(\d{1,2})\]\[(\d{1,2})\]")
_VALUE_AFTER = re.compile(
    r"[\s,]{0,3}(?:are|is|be|=|:|->|→|has|have|hold|get|holds?|gets?)[\s=]{0,3}(?:all\s)?(\d)(?![\w,])",
    re.I,
)
_VALUE_BEFORE = re.compile(r"(?<![\w.,(\[])(\d)(?:s|['’]s)?\b[^.;()\[\]\d]{0,40}$")
_REST = re.compile(
    r"\b(?:all|every|everything|everywhere|the\s+others?|others?|the\s+rest|remaining|elsewhere|each|otherwise)\b"
    r"[^.;()\d]{0,40}?(\d)(?![\w,])|(?<![\w,(])(\d)s?\s+(?:everywhere|elsewhere|otherwise|in\s+all\s+others?)\b",
    re.IGNORECASE,
)
Change = Callable[[Matrix], Matrix]


def whole_grids(
    text: str, matrix: Matrix, solution: Matrix, attempt: Matrix | None
) -> Iterator[Stated]:
    """Passages that state the solution in another order or form; each as the solution itself."""
    n = len(solution)
    if matrix != solution:
        quoted = [_flat(grid) for grid in (matrix, attempt) if grid is not None and len(grid) == n]
        wanted = [form for form in _forms(text, solution) if list(form) not in quoted]
        for start, end, values in _lists(text):
            if any(values == form for form in wanted):
                yield _stated(text, start, end, solution)
        for start, end in _lettered(text, solution):
            yield _stated(text, start, end, solution)
    yield from _by_value(text, solution)


def _stated(text: str, start: int, end: int, grid: Matrix) -> Stated:
    cells = tuple((r, c, value) for r, row in enumerate(grid) for c, value in enumerate(row))
    return Stated(start, end, cells, cue_before(text, start))


def _flat(grid: Sequence[Sequence[int]]) -> list[int]:
    return [value for row in grid for value in row]


def _forms(text: str, solution: Matrix) -> list[list[int]]:
    """The solution as a list, and in the orders and shifts that the text speaks of."""
    orders: list[Change] = [lambda grid: grid]
    if BACKWARDS.search(text):
        orders += [
            lambda grid: [row[::-1] for row in grid],
            lambda grid: grid[::-1],
            lambda grid: [row[::-1] for row in grid[::-1]],
        ]
    if _COLUMNS.search(text):
        orders += [lambda grid: [list(column) for column in zip(*grid, strict=True)]]
    forms = [_flat(order(solution)) for order in orders]
    if _CHANGED.search(text):
        first, most = forms[0], max(forms[0])
        shifts = [(a, b) for a in (1, 2, 3, 10) for b in range(10)] + [
            (-1, b) for b in range(most, 11)
        ]
        forms += [[a * value + b for value in first] for a, b in shifts if (a, b) != (1, 0)]
    return forms


def _lists(text: str) -> Iterator[tuple[int, int, list[int]]]:
    """Numbers that stand close together, without labels, each list once as numbers and once as
    digits.
    """
    shown = _LABEL.sub(lambda found: " " * len(found[0]), text)
    shown = _REPEATED.sub(_repeat, shown)
    run: list[tuple[int, int, str]] = []
    for num, found in enumerate(_NUMBER.finditer(shown)):
        gap = shown[run[-1][1] : found.start()] if run else ""
        if run and (len(gap) > MAX_GAP or "\n\n" in gap or num == MAX_NUMBERS):
            yield from _as_values(run)
            run = []
        if num == MAX_NUMBERS:
            return
        run.append((*found.span(), found[0]))
    yield from _as_values(run)


def _repeat(found: re.Match[str]) -> str:
    """`3 0s` as `000`, if there is room for it."""
    digits = found[2] * min(int(found[1]), MAX_VALUE)
    return digits.ljust(len(found[0])) if len(digits) <= len(found[0]) else found[0]


def _as_values(run: list[tuple[int, int, str]]) -> Iterator[tuple[int, int, list[int]]]:
    if run:
        yield run[0][0], run[-1][1], [int(shown) for _, _, shown in run]
        yield (
            run[0][0],
            run[-1][1],
            [int(digit) for _, _, shown in run for digit in shown if digit != "-"],
        )


def _lettered(text: str, solution: Matrix) -> Iterator[tuple[int, int]]:
    """The values as the letters a, b, c, …, with or without something between them."""
    wanted = "".join(chr(97 + value) for value in _flat(solution))
    if len(set(wanted)) > 2 and _CHANGED.search(text):
        pattern = r"[\W_]{0,4}".join(re.escape(c) for c in wanted)
        for found in re.finditer(rf"(?<![^\W_]){pattern}(?![^\W_])", text, re.IGNORECASE):
            yield found.span()


def _by_value(text: str, solution: Matrix) -> Iterator[Stated]:
    """Lists of cells with their value, and what all the others are."""
    n = len(solution)
    groups = list(_groups(text))
    rest = _REST.search(text)
    if not groups:
        return
    places = [place for _, _, cells, _ in groups for place in cells]
    for first in (1, 0):
        said = {(r - first, c - first): value for _, _, cells, value in groups for r, c in cells}
        if not all(0 <= r < n and 0 <= c < n for r, c in said):
            continue
        default = int(rest[1] or rest[2]) if rest and len(places) < n * n else -1
        grid = [[said.get((r, c), default) for c in range(n)] for r in range(n)]
        if grid == solution and any(value for _, _, _, value in groups):
            yield _stated(
                text,
                min(groups[0][0], rest.start() if rest else groups[0][0]),
                groups[-1][1],
                solution,
            )


def _groups(text: str) -> Iterator[tuple[int, int, list[tuple[int, int]], int]]:
    """(start, end, cells, value) of every list of cells that has a value before or behind it."""
    some: list[re.Match[str]] = []
    for found in (*_PLACE.finditer(text[: 20 * MAX_NUMBERS]), None):
        joined = found is not None and some and _LIST.fullmatch(text, some[-1].end(), found.start())
        if some and not joined:
            start, end = some[0].start(), some[-1].end()
            value = _VALUE_AFTER.match(text, end) or _VALUE_BEFORE.search(
                text[max(0, start - MAX_GAP) : start]
            )
            if value:
                yield (
                    start,
                    end,
                    [(int(m[1] or m[3]), int(m[2] or m[4])) for m in some],
                    int(value[1]),
                )
            some = []
        if found is not None:
            some.append(found)


_LIST = re.compile(r"[\s,;&]{0,4}(?:and\s|und\s|et\s|y\s)?")
