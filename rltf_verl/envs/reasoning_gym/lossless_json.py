"""JSON that gives back what it was given: tuples, sets, fractions and keys that are no text
survive.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

_TUPLE, _SET, _PAIRS, _FRACTION = "__tuple__", "__set__", "__pairs__", "__fraction__"
_MAKE = {_TUPLE: tuple, _SET: set, _PAIRS: dict, _FRACTION: Fraction}


def encode(value: Any) -> Any:
    """`value` as plain JSON values.

    Raises:
        TypeError: it holds something that is not data.

    >>> encode({"a": (1, 2), 3: {5}})
    {'__pairs__': [['a', {'__tuple__': [1, 2]}], [3, {'__set__': [5]}]]}
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value if type(value) in (type(None), bool, int, float) else _plain(value)
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, tuple):
        return {_TUPLE: [encode(item) for item in value]}
    if isinstance(value, (set, frozenset)):
        # A set has no order of its own, and its items may not compare.
        return {_SET: [encode(item) for item in sorted(value, key=repr)]}
    if isinstance(value, dict):
        if (
            all(isinstance(key, str) for key in value)
            and not {_TUPLE, _SET, _PAIRS, _FRACTION} & value.keys()
        ):
            return {str(key): encode(item) for key, item in value.items()}
        # Keys that are no text, or that would pass for one of these forms.
        return {_PAIRS: [[encode(key), encode(item)] for key, item in value.items()]}
    if isinstance(value, Fraction):
        return {_FRACTION: str(value)}
    if hasattr(value, "tolist"):  # numpy, without importing it
        return encode(value.tolist())
    raise TypeError(f"a {type(value).__name__} is not data")


def decode(value: Any) -> Any:
    """The value that `encode` got.

    >>> decode(encode({"a": (1, [2])}))
    {'a': (1, [2])}
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and (make := _MAKE.get(next(iter(value)))) is not None:
        return make(decode(next(iter(value.values()))))
    return {key: decode(item) for key, item in value.items()}


def _plain(value: Any) -> Any:
    """Without the subclass: enumerations and numpy's text and numbers are such."""
    base = next(kind for kind in (str, int, float) if isinstance(value, kind))
    return base(value.value if hasattr(value, "value") else value)
