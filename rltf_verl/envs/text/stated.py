"""What a text says about a grid, and the text as it is looked at."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rltf_verl.envs.text.number_words import number_spans, spell_digits, spell_ordinals

Matrix = list[list[int]]

MAX_GAP = 80
"""Characters of prose between two parts of one statement."""

_MARKUP = re.compile(r"""\\[a-zA-Z]+(?:\{[a-z]*matrix\*?\})?|[`$&{}"'|\\*_]|[=<>?](?=[0-9])""")


@dataclass(frozen=True, slots=True)
class Stated:
    """What `text[start:end]` says about the grid."""

    start: int
    end: int
    cells: tuple[tuple[int, int, int], ...]
    """(row, column, value), from 0."""
    cue: str
    """The words in front of it, in the same sentence."""


def plain(text: str) -> str:
    """`text` of the same length with digits for number words and blanks for markup."""
    return spell_ordinals(spell_digits(_without_markup(text)))


def word_ends(text: str) -> dict[int, int]:
    """Every place inside a number word -> where the word ends: its digits in `plain(text)` are
    shorter than it is.
    """
    spans = number_spans(_without_markup(text))
    return {place: end for start, end in spans for place in range(start + 1, end)}


def _without_markup(text: str) -> str:
    return _MARKUP.sub(lambda found: " " * len(found[0]), text.replace("\\\\", ";;"))


def cue_before(text: str, start: int) -> str:
    """The words of the same sentence in front of a passage."""
    before = text[max(0, start - MAX_GAP) : start]
    cuts = [m.end() for m in re.finditer(r"[.!?]\s|\n\s*\n", before)]
    return before[cuts[-1] :] if cuts else before
