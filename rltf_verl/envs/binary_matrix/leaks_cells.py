"""Find where a text gives single cells of a grid a value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rltf_verl.envs.text.stated import Stated, cue_before

_NTH = r"(?:st|nd|rd|th)\s+"
_JOIN = r"\W{1,3}(?:(?:and|of|in)\s+)?(?:the\s+)?"
_PLACES = (
    r"\(\s*ROW\s*,\s*COL\s*\)",
    r"\[\s*ROW\s*(?:,|\]\s*\[)\s*COL\s*\]",
    rf"row\s+ROW{_JOIN}col(?:umn)?\s+COL",
    rf"col(?:umn)?\s+COL{_JOIN}row\s+ROW",
    rf"ROW{_NTH}row{_JOIN}COL{_NTH}col(?:umn)?",
    rf"COL{_NTH}col(?:umn)?{_JOIN}ROW{_NTH}row",
    rf"COL{_NTH}(?:cell|value|entry|number|element){_JOIN}(?:row\s+ROW|(?<!\d)(?P<r>\d{{1,2}}){_NTH}row)",
)
_INDEX = r"(?<!\d)(?P<NAME>\d{1,2})"
"""Longer numbers name no cell; without the bound a long row of digits would be looked at again from
each of them.
"""
_FORMS = [
    form.replace("ROW", _INDEX.replace("NAME", f"r{i}")).replace(
        "COL", _INDEX.replace("NAME", f"c{i}")
    )
    for i, form in enumerate(_PLACES)
]
_AT = f"(?:{'|'.join(_FORMS)})"
_ROWS, _COLUMNS = (
    ["r", *(f"r{i}" for i in range(len(_PLACES)))],
    [f"c{i}" for i in range(len(_PLACES))],
)
_MUST = (
    r"(?:(?:should|must|ought\s+to|has\s+to|have\s+to|needs?\s+to|is\s+supposed\s+to|shall|would)\s+"
    r"(?:\w{1,20}\s+){0,2}?(?:be|become|read|equal|hold|have|contain|say|show)"
    r"|(?:the|a)\s+(?:correct|right|true|actual|proper|expected)\s+(?:value|distance|entry|number|answer)\s*(?:is|:|=)"
    r"|correctly\s+(?:is|has)|is\s+(?:really|actually|in\s+fact|correctly))"
)
_VALUE = (
    r"(?:a\s+|an\s+|the\s+)?(?:value\s+|number\s+|distance\s+)?(?:of\s+)?(?<!\d)(?P<value>\d{1,3})\b(?!\s*(?:,|by\b|x|×)\s*\d)"
    r"(?!\s+(?:or|more|less|fewer|larger|smaller|greater|bigger|higher|lower)\b)"
)
_NOT_YOU = r"(?<!you )(?<!you have )(?<!you had )"
_SET = rf"{_NOT_YOU}(?:set|change|make|replace|correct|fix|update|turn)"
_SURE = [
    rf"{_AT}[^.\n;]{{0,40}}?{_MUST}\s+{_VALUE}",
    rf"{_SET}\s[^.\n;]{{0,40}}?{_AT}[^.\n;]{{0,25}}?(?:to|with|by|as|into|equal\s+to|be|=)\s+{_VALUE}",
    rf"{_NOT_YOU}(?:put|write|use|enter|place|fill\s+in)\s+{_VALUE}\s+(?:at|in|into|for|on)\s[^.\n;]{{0,25}}?{_AT}",
    rf"(?:correct|right|true|actual|proper|expected)\s+(?:value|distance|entry|number|answer)\s+(?:at|of|for|in)\s"
    rf"[^.\n;]{{0,25}}?{_AT}\s*(?:is|:|=|equals)\s*{_VALUE}",
    rf"{_VALUE}\s+(?:is\s+(?:the\s+)?(?:correct|right|true|expected)|belongs|is\s+what\s+belongs|goes)\s"
    rf"[^.\n;]{{0,30}}?{_AT}",
]
_BARE = rf"{_AT}[\s\w,]{{0,25}}?(?:=|:|->|→|\bis\b|\bequals\b|\bhas\s+distance\b)\s*{_VALUE}"


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.ASCII)


_CLAIMS = [(_compiled(pattern), True) for pattern in _SURE] + [(_compiled(_BARE), False)]


def stated_cells(text: str, n: int) -> Iterator[tuple[Stated, bool]]:
    """Single cells that the (plain) text gives a value, and whether it says that it *should* be so.

    Cells are counted from 1, as the project's own feedback does, unless a named cell has a 0.
    """
    for pattern, sure in _CLAIMS:
        for found in pattern.finditer(text):
            row, column = (
                int(next(filter(None, map(found.group, keys)))) for keys in (_ROWS, _COLUMNS)
            )
            first = 0 if 0 in (row, column) else 1
            if row - first < n and column - first < n:
                cell = (row - first, column - first, int(found["value"]))
                yield (
                    Stated(found.start(), found.end(), (cell,), cue_before(text, found.start())),
                    sure,
                )
