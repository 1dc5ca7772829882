"""Compare an output with the expected one.

Printed output is compared as the graders of APPS and LiveCodeBench do: empty lines and spaces
around it do not matter, lines do, within a line the spaces do not; numbers are compared by value. A
tolerance applies where the expected number is written with a point or an exponent, and nowhere
else: 1000001 is not 1000002.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?"
)


def same_text(printed: str, expected: str, tolerance: float) -> bool:
    """True if the printed text is the expected one; `tolerance` is relative, below 1 absolute."""
    got, wanted = _lines(printed), _lines(expected)
    return len(got) == len(wanted) and all(
        _same_line(g, w, tolerance) for g, w in zip(got, wanted, strict=True)
    )


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(got: str, wanted: str, tolerance: float) -> bool:
    if got == wanted:
        return True
    pair = got.split(), wanted.split()
    return len(pair[0]) == len(pair[1]) and all(
        _same_word(g, w, tolerance) for g, w in zip(*pair, strict=True)
    )


def _same_word(got: str, wanted: str, tolerance: float) -> bool:
    if got == wanted:
        return True
    if not (_NUMBER.fullmatch(got) and _NUMBER.fullmatch(wanted)):
        return False
    # Exact, by value: `7.0` is 7, and 1000001 is not 1000002.
    if wanted.lstrip("+-").isdigit():
        return Decimal(got) == Decimal(wanted)
    return _close(float(got), float(wanted), tolerance)


def same_value(got: Any, expected: Any, tolerance: float) -> bool:
    """True if two JSON values are the same; true is not 1; `tolerance` applies where a float is
    expected.
    """
    if isinstance(expected, list) and isinstance(got, list):
        return len(got) == len(expected) and all(
            same_value(g, w, tolerance) for g, w in zip(got, expected, strict=True)
        )
    if isinstance(expected, dict) and isinstance(got, dict):
        return got.keys() == expected.keys() and all(
            same_value(got[k], expected[k], tolerance) for k in expected
        )
    if type(expected) is float and type(got) in (int, float):
        try:
            return _close(float(got), expected, tolerance)
        except OverflowError:
            return False
    if isinstance(expected, bool) or isinstance(got, bool):
        return got is expected
    return bool(got == expected)


def _close(got: float, wanted: float, tolerance: float) -> bool:
    if not (math.isfinite(got) and math.isfinite(wanted)):
        return got == wanted or (math.isnan(got) and math.isnan(wanted))
    return got == wanted or abs(got - wanted) <= tolerance * max(1.0, abs(wanted))
