"""Numbers: English words as digits, and the value of a text that is one number."""

from __future__ import annotations

import re
from fractions import Fraction

from rltf_verl.texts import split_words

_SMALL = split_words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_TENS = split_words("twenty thirty forty fifty sixty seventy eighty ninety")
_ORDINALS = split_words("first second third fourth fifth sixth seventh eighth ninth")
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
_VALUE = {word: i for i, word in enumerate(_SMALL)} | {
    word: 10 * i for i, word in enumerate(_TENS, start=2)
}

# `hal` with `f` or `ves`: half, halves.
_PARTS = {"hal": 2, "quarter": 4, "tenth": 10} | {
    word: i for i, word in enumerate(_ORDINALS[2:], start=3)
}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}

_UNIT = "|".join(_SMALL[1:10])
# `seventeen` before `seven`: an alternation takes the first word that fits.
_LONGEST_FIRST = "|".join(sorted(_SMALL, key=len, reverse=True))
_AND = r"\s{1,3}(?:and\s{1,3})?"
# `forty`, `forty-two`, `seven`
_BELOW_100 = rf"(?:(?:{'|'.join(_TENS)})(?:[\s-]{{1,3}}(?:{_UNIT})\b)?|{_LONGEST_FIRST})"
# `a hundred and two`, `twelve hundred`
_COUNT = rf"(?:(?:{_LONGEST_FIRST}|a)\s{{1,3}}hundred(?:{_AND}{_BELOW_100})?|{_BELOW_100})"
_BELOW_MILLION = rf"(?:(?:{_COUNT}|a)\s{{1,3}}thousand(?:,?{_AND}{_COUNT})?|{_COUNT})"
# `a third`, `2 thirds`, but no `row 2 third column`
_ABOVE = rf"{_LONGEST_FIRST}|a|\d{{1,15}}(?=[\s-]\w{{1,9}}s\b)"
# `two million, three hundred thousand and one`
NUMBER_WORDS = re.compile(
    rf"\b(?:(?:(?P<whole>{_COUNT}|\d{{1,15}})\sand\s)?"
    rf"(?P<above>{_ABOVE})[\s-](?P<part>{'|'.join(_PARTS)})(?:f|ves|s)?"
    rf"|(?:(?:{_COUNT}|a)\s{{1,3}}million(?:,?{_AND}{_BELOW_MILLION})?|{_BELOW_MILLION})"
    rf"(?:\s{{1,3}}point(?:\s{{1,3}}(?:zero|{_UNIT}))+)?"
    rf"|(?P<ordinal>{'|'.join(_ORDINALS)})"
    rf"|(?P<digits>\d[\d,]{{0,15}}(?:\.\d{{1,15}})?)\s{{1,3}}(?P<scale>{'|'.join(_SCALES)}))\b",
    re.IGNORECASE | re.ASCII,
)
"""A number below a billion, `first` to `ninth`, `two and a half` or `2.5 million`."""
LATEX_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]+)\}\s*\{([^{}]+)\}")
# Sign; `2` of `2 1/2`; `1,234.5` or `.5`; what it is divided by; per cent.
_NUMBER = re.compile(
    r"(?P<sign>\+|-|(?:minus|negative)\s)?\s*(?:(?P<whole>\d{1,15})\s+(?=\d+\s*/))?"
    r"(?P<above>\d[\d,]*(?:\.\d*)?|\.\d+)\s*(?:(?:/|over)\s*(?P<below>\d[\d,]*(?:\.\d*)?))?"
    r"\s*(?P<percent>%)?",
    re.ASCII | re.IGNORECASE,
)


def in_digits(words: re.Match[str]) -> str:
    """The digits for a match of `NUMBER_WORDS`."""
    if ordinal := words["ordinal"]:
        nth = _ORDINALS.index(ordinal.lower()) + 1
        return f"{nth}{_ENDINGS.get(nth, 'th')}"
    if part := words["part"]:
        whole, above = (spell_digits(words[name] or "") for name in ("whole", "above"))
        return f"{whole} {above}/{_PARTS[part.lower()]}".strip().lower().replace("a", "1")
    if digits := words["digits"]:
        return str(_fraction(digits) * _SCALES[words["scale"].lower()])
    whole, _, decimals = re.sub(r"[\s,-]+", " ", words[0].lower()).partition(" point ")
    total = part = 0
    for word in whole.split():
        if word == "hundred":
            part = 100 * max(part, 1)
        elif word in _SCALES:
            total, part = total + _SCALES[word] * max(part, 1), 0
        else:
            part += _VALUE.get(word, 0)  # `a` and `and` have no value
    point = "." if decimals else ""
    return f"{total + part}{point}{''.join(str(_VALUE[word]) for word in decimals.split())}"


def spell_digits(text: str) -> str:
    """`text` with digits for English number words.

    >>> spell_digits("the second row is forty-two, not two thousand and one")
    'the 2nd row is 42, not 2001'
    >>> spell_digits("three point five, twelve hundred, a million and two, 2.5 million, a third")
    '3.5, 1200, 1000002, 2500000, 1/3'
    """
    return NUMBER_WORDS.sub(in_digits, text)


def as_number(text: str) -> Fraction | None:
    """The number that all of `text` is, if it is one: digits, fractions, per cent or words.

    >>> as_number(r"\\frac{1}{2}") == as_number("50%") == as_number("0.5")
    True
    """
    plain = LATEX_FRACTION.sub(r" \1/\2", text.strip().strip("$").rstrip(".").strip())
    number = _NUMBER.fullmatch(spell_digits(plain).strip())
    if number is None or not (divisor := _fraction(number["below"] or "1")):
        return None
    value = _fraction(number["whole"] or "0") + _fraction(number["above"]) / divisor
    value /= 100 if number["percent"] else 1
    return value if number["sign"] in (None, "+") else -value


def _fraction(digits: str) -> Fraction:
    return Fraction(digits.replace(",", "").rstrip(".") or "0")
