"""Grader processes of `math`: parse two answers and compare them (math-verify). See `pool`.

math-verify reads LaTeX with a grammar of its own. Its time limits need the main thread's alarm, so
they are off: the pool has the deadline.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from math_verify import parse, verify
from sympy import (
    Basic,
    FiniteSet,
    Float,
    Integer,
    Interval,
    MatrixBase,
    Rational,
    Set,
    Symbol,
    Tuple,
    Union,
)
from sympy.core.relational import Equality, Relational

# `Evelyn`, `\text{Evelyn}`, `$\text{Evelyn}$`; not a single letter.
_WORDS = re.compile(
    r"(?:\\?\$)?(?:\\(?:text|textbf|mathrm|mbox)\s*(?:\{\s*)?|\{?\s*)[A-Za-z]{2}[A-Za-z\s.-]*\}?\$?"
)

_RAISED, _FRACTION = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+"), re.compile("[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞]")
# `√2`, `√{2}`, `√(x+1)`
_ROOT = re.compile(r"√\s*(?:\(([^()]*)\)|\{?(\d+|[A-Za-z])\}?)")
# `1 1/2`
_MIXED = re.compile(r"(?<![\d./^])(\d{1,30})\s+(\d{1,30})/(\d{1,30})(?![\d/])")
# `0.1\overline{6}`; `0.1(6)` only at the end of an answer, elsewhere it may be a product
_REPEATING = re.compile(
    r"(\d{0,30})\.(\d{0,30})"
    r"(?:\\(?:overline|bar|dot)\s*(?:\{(\d{1,30})\}|(\d))|\((\d{1,30})\)(?=\$?$))"
)
_SIGNS = str.maketrans({"·": r"\cdot ", "∞": r"\infty ", "–": "-", "−": "-"})


def compare(given: str, wanted: str, official: bool) -> dict[str, Any]:
    """Compare two answers: are they the same, how was the first read, and of what kinds are they?

    Args:
        given: the attempt's answer.
        wanted: the reference.
        official: as the release, which swaps the two (math-verify unwraps `x = 5` on one side
            only).

    Returns:
        `correct`, `read` (text, None if it could not be parsed), `kind` and `wanted_kind` (words,
        or None).
    """
    ours, theirs = (_parse(answer, official) for answer in (given, wanted))
    pair = (ours, theirs) if official else (theirs, ours)
    return {
        # Ours also takes `x < 3` for an interval, in either order.
        "correct": bool(verify(*pair, timeout_seconds=None, allow_set_relation_comp=not official)),
        # math-verify returns sympy's value, and then the text that it has read.
        "read": next((x for x in ours if isinstance(x, str)), None),
        "kind": _kind(ours, given),
        "wanted_kind": _kind(theirs, wanted),
    }


def _parse(answer: str, official: bool) -> list[Any]:
    answer = answer if official else _in_latex(answer)
    if not answer.startswith("$") and not answer.endswith("$"):  # this `and` is the release's
        answer = f"${answer}$"
    return list(parse(answer, parsing_timeout=None))


def _in_latex(answer: str) -> str:
    """With LaTeX for signs at which math-verify stops to read: `2√3` would be 2."""
    answer = _RAISED.sub(lambda m: f"^{{{unicodedata.normalize('NFKC', m[0])}}}", answer)
    answer = _FRACTION.sub(
        # NFKC makes three characters of `½`: 1, U+2044, 2.
        lambda m: r"\frac{{{}}}{{{}}}".format(*unicodedata.normalize("NFKC", m[0]).split("⁄")),
        answer,
    )
    answer = _MIXED.sub(r"\1\\frac{\2}{\3}", answer)
    answer = _REPEATING.sub(_fraction, answer)
    return _ROOT.sub(lambda m: rf"\sqrt{{{m[1] or m[2]}}}", answer).translate(_SIGNS)


def _fraction(decimal: re.Match[str]) -> str:
    """Fraction of a repeating decimal: 0.1666… is (16 − 1) / 90."""
    whole, once, *ways = decimal.groups()
    again = next(filter(None, ways))
    above = int(f"0{whole}{once}{again}") - int(f"0{whole}{once}")
    return rf"\frac{{{above}}}{{{10 ** len(once) * (10 ** len(again) - 1)}}}"


def _kind(parsed: list[Any], text: str) -> str | None:
    """Kind of a parsed answer, without a word about its value; None if it could not be parsed."""
    if _WORDS.fullmatch(text.strip()):  # math-verify reads a product of letters
        return "a word"
    value = next((x for x in parsed if not isinstance(x, str)), None)
    if isinstance(value, MatrixBase):
        return f"a {value.rows}×{value.cols} matrix"
    if not isinstance(value, Basic):
        return None
    return _kind_of_set(value) or _kind_of_expression(value)


def _kind_of_set(value: Basic) -> str | None:
    if isinstance(value, Interval):
        # (1, 2) is read as an open interval, whatever was meant
        return (
            "a pair or an open interval" if value.left_open and value.right_open else "an interval"
        )
    if isinstance(value, Union):
        return "a union of intervals or sets"
    if isinstance(value, (FiniteSet, Tuple)):
        word = "set" if isinstance(value, FiniteSet) else "tuple"
        return f"a {word} of {len(value.args)} value{'s' if len(value.args) != 1 else ''}"
    return "a set" if isinstance(value, Set) else None


def _kind_of_expression(value: Basic) -> str:
    if isinstance(value, Relational):
        return "an equation" if isinstance(value, Equality) else "an inequality"
    if isinstance(value, Symbol):
        return "a letter" if len(value.name) == 1 else "words"
    if isinstance(value, (Rational, Float)):
        whole = isinstance(value, Integer) or value == int(value)
        return "a whole number" if whole else "a number that is not whole"
    if not value.free_symbols:
        return "an expression of numbers"
    return "an expression with letters"  # which ones would spell `June 20`, or the B of `(B) 5`
