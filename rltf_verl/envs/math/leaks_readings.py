"""The answer of a mathematical problem as a reader would work it out: digit by digit, as a sum,
from the wrong answer.

Reads a text with digits for number words (`readings`). Each yields (start, end, value).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

Reading = tuple[int, int, Fraction]
"""Where it stands, and its value."""

MAX_DIGITS = 12
_DIGIT_BY_DIGIT = re.compile(
    r"(?<![\w.,/+*^-])\d(?:[ \t]?[- \t·][ \t]?\d){1,11}(?![\w/*+^]|[.,]\d)", re.ASCII
)
_SENTENCE = re.compile(r"[^.!?\n]+")
_OF_DIGITS = re.compile(
    r"\b(?:digits?|followed\s+by|then\s+an?|ziffern?|chiffres?|cifras?|cifre|algarismos?|cijfers?|cyfr\w*|цифр\w*)\b|数字|桁|자리",
    re.IGNORECASE,
)
_ONE_DIGIT = re.compile(r"(?<![\w.,])\d(?![\w]|[.,]\d)", re.ASCII)
_PLACES = re.compile(
    r"(?<![\w.,])(\d{1,2})\s+(thousands?|hundreds?|tens?|ones?|1s|units?)\b"
    r"|\b(thousands?|hundreds?|tens?|ones?|units?)\s*(?:digit|place)?\s*(?:is|:|=)?\s*(?:an?\s+)?(\d)(?![\w])",
    re.IGNORECASE | re.ASCII,
)
_SIZE = {"t": 10, "h": 100, "o": 1, "1": 1, "u": 1}
_N = r"(\d{1,9}(?:\.\d{1,4})?)"
_YOURS = (
    r"(?:your|the)\s+(?:\w+\s+)?(?:answer|result|value|number|total)"
    r"|what\s+you\s+(?:got|have|had|wrote)|yours"
)
_FROM_ATTEMPT: tuple[tuple[str, str, int], ...] = (
    # example, pattern, sign of the number that is added to the wrong answer
    ("Your answer is too large by 3", rf"\btoo\s+(?:large|big|high|much|great)\s+by\s+{_N}", -1),
    ("Your answer is too small by 3", rf"\btoo\s+(?:small|low|little)\s+by\s+{_N}", 1),
    ("Your answer is 3 too large", rf"\b{_N}\s+too\s+(?:large|big|high|much|many|great)\b", -1),
    ("Your answer is 3 too small", rf"\b{_N}\s+too\s+(?:small|low|little|few)\b", 1),
    ("Add 3 to your result", rf"\b(?:add|plus)\s+{_N}\s+to\s+(?:{_YOURS})", 1),
    ("Increase your answer by 3", rf"\b(?:increase|raise)\s+(?:{_YOURS})\s+by\s+{_N}", 1),
    (
        "Subtract 3 from your result",
        rf"\b(?:subtract|take|deduct)\s+{_N}\s+(?:away\s+)?from\s+(?:{_YOURS})",
        -1,
    ),
    ("Decrease your answer by 3", rf"\b(?:decrease|lower|reduce)\s+(?:{_YOURS})\s+by\s+{_N}", -1),
    (
        "It is 3 more than your answer",
        rf"\b{_N}\s+(?:more|greater|larger|higher|above)\s+(?:than\s+)?(?:{_YOURS})",
        1,
    ),
    (
        "It is 3 less than your answer",
        rf"\b{_N}\s+(?:less|smaller|lower|fewer|below)\s+(?:than\s+)?(?:{_YOURS})",
        -1,
    ),
    (
        "Your answer exceeds it by 3",
        rf"\byour\s+\w+\s+(?:exceeds|overshoots)\b[^.!?\n]{{0,30}}\bby\s+{_N}",
        -1,
    ),
)
_STEPS = tuple(
    (re.compile(pattern, re.IGNORECASE | re.ASCII), sign) for _, pattern, sign in _FROM_ATTEMPT
)


def digit_by_digit(text: str) -> Iterator[Reading]:
    """`8-4`, `an 8 followed by a 4`, `8 tens and 4 ones`."""
    for found in _DIGIT_BY_DIGIT.finditer(text):
        yield *found.span(), Fraction(re.sub(r"\D", "", found[0]))
    for sentence in _SENTENCE.finditer(text):
        digits = [m[0] for m in _ONE_DIGIT.finditer(sentence[0])]
        if 1 < len(digits) <= MAX_DIGITS and _OF_DIGITS.search(sentence[0]):
            yield *sentence.span(), Fraction("".join(digits))
        places = list(_PLACES.finditer(sentence[0]))
        if len(places) > 1:
            total = sum(int(m[1] or m[4]) * _size(m[2] or m[3]) for m in places)
            yield (
                sentence.start() + places[0].start(),
                sentence.start() + places[-1].end(),
                Fraction(total),
            )


def from_attempt(text: str, attempt: Fraction) -> Iterator[Reading]:
    """`your answer is too large by 3`."""
    for pattern, sign in _STEPS:
        for found in pattern.finditer(text):
            yield *found.span(), attempt + sign * Fraction(found[1])


def _size(word: str) -> int:
    return 1000 if word.lower().startswith("th") else _SIZE[word[0].lower()]
