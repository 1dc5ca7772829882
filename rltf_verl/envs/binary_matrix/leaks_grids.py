"""Find where a text states an n×n grid of numbers, or a row or column of it, in whatever words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

from rltf_verl.envs.text.stated import MAX_GAP, Stated, cue_before

MAX_NUMBERS = 600
"""Numbers of a text that are looked at."""


@dataclass(frozen=True, slots=True)
class _Run:
    start: int
    end: int
    values: tuple[int, ...]


_NUMBER = re.compile(r"(?<![\w.])[0-9]{1,12}(?:\.0+)?(?![\w]|\.[0-9])", re.ASCII)
_SAME_ROW = re.compile(
    r"[ \t]*(?:,[ \t]*)?(?:(?:and|then|followed by)[ \t]+(?:a[ \t]+)?)?|[ \t]*[-/–→>]+[ \t]*", re.I
)


def stated_grids(text: str, n: int) -> Iterator[Stated]:
    """Every stretch of the (plain) text that can be read as n rows of n numbers."""
    numbers = _numbers(text)
    digits = [text[run.start : run.end] for run in numbers]
    for rows in _row_windows(_rows(text, numbers, digits, n), n):
        yield _grid(
            text, rows[0].start, rows[-1].end, tuple(v for row in rows for v in row.values), n
        )
    for i in range(len(numbers) - n * n + 1):
        window = numbers[i : i + n * n]
        if all(b.start - a.end <= MAX_GAP // 4 for a, b in pairwise(window)):
            yield _grid(
                text, window[0].start, window[-1].end, tuple(run.values[0] for run in window), n
            )
    for run, shown in zip(numbers, digits, strict=True):
        if len(shown) == n * n:
            yield _grid(text, run.start, run.end, tuple(map(int, shown)), n)


def _numbers(text: str) -> list[_Run]:
    return [
        _Run(m.start(), m.end(), (_int(m[0]),)) for m in islice(_NUMBER.finditer(text), MAX_NUMBERS)
    ]


def _grid(text: str, start: int, end: int, values: tuple[int, ...], n: int) -> Stated:
    cells = tuple((i // n, i % n, value) for i, value in enumerate(values))
    return Stated(start, end, cells, cue_before(text, start))


def _rows(text: str, numbers: list[_Run], digits: list[str], n: int) -> list[_Run]:
    """Numbers that stand side by side, as rows of n where they are ones, and n digits without a
    space as a row.
    """
    runs: list[list[int]] = []
    for i in range(len(numbers)):
        joined = i > 0 and _SAME_ROW.fullmatch(text, numbers[i - 1].end, numbers[i].start)
        if joined and (len(digits[i]) == n) == (len(digits[i - 1]) == n):
            runs[-1].append(i)
        else:
            runs.append([i])
    return [row for run in runs for row in _split(run, numbers, digits, n)]


def _split(run: list[int], numbers: list[_Run], digits: list[str], n: int) -> Iterator[_Run]:
    if n > 1 and all(len(digits[i]) == n for i in run):
        for i in run:
            yield _Run(numbers[i].start, numbers[i].end, tuple(map(int, digits[i])))
        return
    size = n if len(run) % n == 0 else len(run)
    for k in range(0, len(run), size):
        part = [numbers[i] for i in run[k : k + size]]
        yield _Run(part[0].start, part[-1].end, tuple(v for one in part for v in one.values))


def _row_windows(rows: list[_Run], n: int) -> Iterator[list[_Run]]:
    """n rows of n in succession; single numbers between them are labels (`row 1: …`)."""
    kept = [row for row in rows if len(row.values) == n or len(row.values) > 1]
    for i in range(len(kept) - n + 1):
        window = kept[i : i + n]
        close = all(b.start - a.end <= MAX_GAP for a, b in pairwise(window))
        if close and all(len(row.values) == n for row in window):
            yield window


_ENDS = {
    "top": 1,
    "upper": 1,
    "leftmost": 1,
    "last": -1,
    "bottom": -1,
    "final": -1,
    "rightmost": -1,
}
_LINE_NAME = re.compile(
    rf"\b(?:(?P<kind>row|col(?:umn)?)\s+(?:number\s+)?\#?(?P<nth>[0-9]{{1,4}})"
    rf"|(?:(?<![0-9])(?P<th>[0-9]{{1,4}})(?:st|nd|rd|th)|(?P<end>{'|'.join(_ENDS)}))\s+(?P<kind2>row|line|col(?:umn)?)\b)",
    re.IGNORECASE,
)


def stated_lines(text: str, n: int) -> Iterator[Stated]:
    """Rows and columns that the (plain) text names and spells: `the 2nd row is 0 1 2`."""
    numbers = _numbers(text)
    rows = [
        row
        for row in _rows(text, numbers, [text[x.start : x.end] for x in numbers], n)
        if len(row.values) == n
    ]
    for name in _LINE_NAME.finditer(text):
        i, after = (
            _line_index(name, n),
            next((row for row in rows if row.start >= name.end()), None),
        )
        if i is None or after is None or after.start - name.end() > MAX_GAP // 2:
            continue
        is_row = (name["kind"] or name["kind2"]).lower() in ("row", "line")
        cells = tuple((i, k, v) if is_row else (k, i, v) for k, v in enumerate(after.values))
        cue = cue_before(text, name.start()) + text[name.end() : after.start]
        yield Stated(name.start(), after.end, cells, cue)


def _line_index(name: re.Match[str], n: int) -> int | None:
    digits = name["nth"] or name["th"]
    given = int(digits) if digits else _ENDS[name["end"].lower()]
    index = n - 1 if given == -1 else given - 1
    return index if 0 <= index < n else None


def _int(shown: str) -> int:
    return int(shown.partition(".")[0])
