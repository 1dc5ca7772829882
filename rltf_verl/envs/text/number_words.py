"""Numbers that are spelled out, read without moving a character: what is found can be pointed at in
the text.
"""

from __future__ import annotations

import re

_SMALL = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_VALUE = {word: i for i, word in enumerate(_SMALL)} | {
    word: 10 * i for i, word in enumerate(_TENS, start=2)
}

_UNIT = "|".join(_SMALL[1:10])
_LONGEST_FIRST = "|".join(sorted(_SMALL, key=len, reverse=True))
_BELOW_100 = rf"(?:(?:{'|'.join(_TENS)})(?:[\s-]+(?:{_UNIT})\b)?|{_LONGEST_FIRST})"
_NUMBER = re.compile(
    rf"\b(?:(?:{_UNIT}|a)\s+hundred(?:\s+(?:and\s+)?{_BELOW_100})?|{_BELOW_100})\b",
    re.IGNORECASE | re.ASCII,
)


def spell_digits(text: str) -> str:
    """`text` of the same length, numbers up to 999 in words written as digits and filled up with
    spaces.

    >>> spell_digits("row two is forty-two")
    'row 2   is 42       '
    """
    return _NUMBER.sub(lambda found: str(_value(found[0])).ljust(len(found[0])), text)


_ORDINAL = re.compile(
    r"\b(?:(first)|(second)|(third)|(fourth)|(fifth)|(sixth)|(seventh)|(eighth)|(ninth))\b",
    re.IGNORECASE,
)
_ENDING = {1: "st", 2: "nd", 3: "rd"}


def spell_ordinals(text: str) -> str:
    """`text` of the same length with `1st` for `first`, up to `9th`.

    >>> spell_ordinals("the second row")
    'the 2nd    row'
    """

    def digits(found: re.Match[str]) -> str:
        nth = found.lastindex or 0
        return f"{nth}{_ENDING.get(nth, 'th')}".ljust(len(found[0]))

    return _ORDINAL.sub(digits, text)


def number_spans(text: str) -> list[tuple[int, int]]:
    """Where numbers in words stand."""
    return [found.span() for found in _NUMBER.finditer(text)]


def _value(words: str) -> int:
    value = 0
    for word in re.split(r"[\s-]+", words.lower()):
        if word == "hundred":
            value = 100 * max(value, 1)
        elif word not in ("a", "and"):
            value += _VALUE[word]
    return value
