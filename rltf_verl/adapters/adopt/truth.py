"""Whether a script's tests hold, where some of what they look at only a run would tell."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

from rltf_verl.adapters.adopt.expand import Variables

Truth = bool | None
"""Whether a command succeeds; None: only running it would tell."""


def tested(parts: list[str], variables: Variables) -> Truth:
    """What `[ … ]` says."""
    for joined, truth_of in (("||", any), ("-o", any), ("&&", all), ("-a", all)):
        if joined in parts:
            place = parts.index(joined)
            sides = [tested(parts[:place], variables), tested(parts[place + 1 :], variables)]
            decided = truth_of is any
            return decided if decided in sides else None if None in sides else not decided
    if parts[:1] == ["!"]:
        return negated(tested(parts[1:], variables))
    if any(variables.causes(part) for part in parts):
        return None
    if len(parts) == 1:
        return bool(parts[0])
    if len(parts) == 2:
        tests: dict[str, Callable[[str], bool]] = {
            "-z": lambda text: not text,
            "-n": bool,
            "-v": lambda name: variables.get(name) is not None,
            "-e": lambda path: Path(path).exists(),
            "-f": lambda path: Path(path).is_file(),
            "-d": lambda path: Path(path).is_dir(),
        }
        return tests[parts[0]](parts[1]) if parts[0] in tests else None
    return _compared(*parts) if len(parts) == 3 else None


def _compared(left: str, sign: str, right: str) -> Truth:
    if sign in ("=", "=="):
        return fnmatchcase(left, right)
    if sign == "!=":
        return not fnmatchcase(left, right)
    signs: dict[str, Callable[[int, int], bool]] = {
        "-eq": int.__eq__,
        "-ne": int.__ne__,
        "-gt": int.__gt__,
        "-ge": int.__ge__,
        "-lt": int.__lt__,
        "-le": int.__le__,
    }
    try:
        return signs[sign](int(left or 0), int(right or 0))
    except (KeyError, ValueError):
        return None


def same(truth: Truth, wanted: bool) -> Truth:
    """Whether it is what was wanted."""
    return None if truth is None else truth is wanted


def negated(truth: Truth) -> Truth:
    """`! …`"""
    return None if truth is None else not truth


def both(first: Truth, second: Truth) -> Truth:
    """`… && …`"""
    if first is False or second is False:
        return False
    return None if first is None or second is None else True
