"""Whether a passage says the same as the reference answer, whatever the spelling."""

from __future__ import annotations

import re
from fractions import Fraction

from rltf_verl.envs.text.number_words import spell_digits

MIN_TOKENS = 5
"""Tokens from which on a reference is long enough that a text contains it by copying and not by
chance.
"""

_TOKEN = re.compile(r"[^\W_]+|-(?=[0-9])")
_LATEX_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]+)\}\s*\{([^{}]+)\}")
_NUMBER = re.compile(
    r"([+-]?)\s*(\d[\d,]*(?:\.\d*)?|\.\d+)\s*(?:/\s*(\d[\d,]*(?:\.\d*)?))?\s*(%)?", re.ASCII
)


def same_answer(passage: str, reference: str) -> bool:
    """The passage *is* the reference: the same number, or the same words and digits in the same
    order.

    >>> same_answer("forty-two", "42"), same_answer("1,000.0", "1000"), same_answer("x = 3", "3")
    (True, True, False)
    """
    number = as_number(reference)
    if number is not None:
        return as_number(passage) == number
    tokens = tokens_of(reference)
    return bool(tokens) and tokens_of(passage) == tokens


def as_number(text: str) -> Fraction | None:
    """The number that all of `text` is, if it is one: digits, fractions, per cent or words.

    >>> as_number(r"\\frac{1}{2}") == as_number("50%") == as_number("0.5")
    True
    """
    plain = _LATEX_FRACTION.sub(r"\1/\2", text.strip().strip("$").rstrip(".").strip())
    found = _NUMBER.fullmatch(spell_digits(plain).strip())
    if found is None:
        return None
    sign, above, below, percent = found.groups()
    value = _fraction(above) / (_fraction(below or "1") or 1) / (100 if percent else 1)
    return -value if sign == "-" else value


def _fraction(digits: str) -> Fraction:
    return Fraction(digits.replace(",", "").rstrip(".") or "0")


def tokens_of(text: str) -> list[str]:
    """Words and numbers in lower case, numbers in digits, without punctuation and markup."""
    return _TOKEN.findall(spell_digits(text).casefold())


def find_reference(text: str, reference: str) -> tuple[int, int] | None:
    """Where the text repeats a long reference, whatever stands between its words; None if it does
    not.

    Short references are left to passages that look like an answer: a text may mention a 3 for many
    reasons.
    """
    wanted = tokens_of(reference)
    if len(wanted) < MIN_TOKENS:
        return None
    found = [(m[0].casefold(), m.span()) for m in _TOKEN.finditer(spell_digits(text))]
    for i in range(len(found) - len(wanted) + 1):
        if all(found[i + k][0] == token for k, token in enumerate(wanted)):
            return found[i][1][0], found[i + len(wanted) - 1][1][1]
    return None
