"""The check of an episode log's lines that every reader makes.

A log may be damaged, of another version or forged. A line that is not as `record` and `rows`
write it is skipped by its reader, with a warning that names file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rltf_verl.texts import printable

MOST_TURNS = 4096
"""An episode's; more would cost readers too much."""
# exports hold whole numbers as int64
_WHOLE = 2**63


class Kind(NamedTuple):
    """The kind that a value must have."""

    name: str
    fits: Callable[[Any], bool]


Fields = Mapping[str, Kind]
"""Name of a field -> what it must be; those with a question mark may be missing."""

_TEXT = Kind("text", lambda v: isinstance(v, str))
_BOOL = Kind("true or false", lambda v: isinstance(v, bool))
# `type(…) is`: to `isinstance` true and false are whole numbers.
_COUNT = Kind("a whole number, at least 0", lambda v: type(v) is int and 0 <= v < _WHOLE)
_INT = Kind("a whole number", lambda v: type(v) is int and -_WHOLE <= v < _WHOLE)
_NUMBER = Kind("a number", lambda v: type(v) is float or _INT.fits(v))
_OBJECT = Kind("an object", lambda v: isinstance(v, dict))
_SPLIT = Kind("train or val", lambda v: v in ("train", "val"))


def _or_null(kind: Kind) -> Kind:
    return Kind(f"{kind.name}, or null", lambda v: v is None or kind.fits(v))


def _list_of(kind: Kind) -> Kind:
    return Kind(
        f"a list, each {kind.name}", lambda v: isinstance(v, list) and all(map(kind.fits, v))
    )


_EPISODE = {
    "step": _COUNT,
    "split": _SPLIT,
    "uid": _TEXT,
    "session_id": _INT,
    "env": _TEXT,
    "index": _INT,
    "reference": _TEXT,
    "question": _TEXT,
    "turns": _list_of(_OBJECT),
    "version?": _INT,
    "source?": _TEXT,
    "seed?": _or_null(_INT),
    "horizon?": _or_null(_COUNT),
    "num_shortened?": _COUNT,
    "task?": _or_null(_OBJECT),
    "context?": _list_of(_OBJECT),
}
_MESSAGE = {"role": _TEXT, "content": _TEXT}
_TURN = {
    "text": _TEXT,
    "ended": _BOOL,
    "reward": _NUMBER,
    "stop": _or_null(_TEXT),
    "error": _or_null(_TEXT),
    "grade": _OBJECT,
    "feedback": _or_null(_OBJECT),
    "prompt?": _or_null(_TEXT),
    "withheld?": _or_null(_OBJECT),
    "num_tokens?": _or_null(_COUNT),
    "prompt_tokens?": _or_null(_COUNT),
}
_GRADE = {
    "correct": _BOOL,
    "format_ok": _BOOL,
    "parsed": _or_null(_TEXT),
    "error": _or_null(_TEXT),
    "score?": _or_null(_NUMBER),
    "details?": _OBJECT,
    "numbers?": _OBJECT,
}
_FEEDBACK = {
    "text": _TEXT,
    "provider": _TEXT,
    "fallback": _BOOL,
    "latency_s": _NUMBER,
    "leak?": _or_null(_TEXT),
    "original?": _or_null(_TEXT),
    "prompt_tokens?": _COUNT,
    "completion_tokens?": _COUNT,
    "cached?": _BOOL,
    "sees_reference?": _BOOL,
}
_ROWS = {"step": _COUNT, "uid": _TEXT, "session_id": _INT, "rows": _list_of(_OBJECT)}
_NUMBERS = ("advantage", "masked", "log_prob", "gap")
_PART = {"role": _TEXT, "turn": _COUNT, "tokens": _COUNT} | dict.fromkeys(_NUMBERS, _NUMBER)
_COLUMNS = {
    **dict.fromkeys(_NUMBERS, _list_of(_NUMBER)),
    "text": _list_of(_TEXT),
    "role": _list_of(_INT),
    "turn": _list_of(_INT),
    "masked": _list_of(Kind("0 or 1", lambda v: v in (0, 1))),
}


def episode_trouble(record: Mapping[str, Any]) -> str | None:
    """The fault of an episode's line; None if it can be read."""
    return next(_episode(record), None)


def rows_trouble(record: Mapping[str, Any]) -> str | None:
    """The fault of a line of training rows; None if it can be read."""
    return next(_rows(record), None)


def _episode(record: Mapping[str, Any]) -> Iterator[str]:
    yield from _faults("", record, _EPISODE)
    for k, message in enumerate(record.get("context", [])):
        yield from _faults(f"context[{k}].", message, _MESSAGE)
    # it is there: the caller stops at the first fault
    turns = record["turns"]
    if not 0 < len(turns) <= MOST_TURNS:
        yield f"turns has {len(turns)} entries, not 1 to {MOST_TURNS}"
    for k, turn in enumerate(turns):
        yield from _turn(f"turns[{k}].", turn)


def _turn(where: str, turn: Mapping[str, Any]) -> Iterator[str]:
    yield from _faults(where, turn, _TURN)
    yield from _faults(f"{where}grade.", turn["grade"], _GRADE)
    for name in ("feedback", "withheld"):
        if turn.get(name) is not None:
            yield from _faults(f"{where}{name}.", turn[name], _FEEDBACK)


def _rows(record: Mapping[str, Any]) -> Iterator[str]:
    yield from _faults("", record, _ROWS)
    for k, row in enumerate(record["rows"]):
        where = f"rows[{k}]."
        yield from _faults(where, row, {"parts": _list_of(_OBJECT), "tokens?": _OBJECT})
        for i, part in enumerate(row["parts"]):
            yield from _faults(f"{where}parts[{i}].", part, _PART)
        if "tokens" in row:
            columns = row["tokens"]
            yield from _faults(f"{where}tokens.", columns, _COLUMNS)
            if len({len(columns[name]) for name in _COLUMNS}) > 1:
                yield f"{where}tokens: its lists are of different lengths"


def _faults(where: str, of: Mapping[str, Any], fields: Fields) -> Iterator[str]:
    """Faults of an object's fields."""
    for field, kind in fields.items():
        name = field.removesuffix("?")
        if name not in of:
            if name == field:
                yield f"{where}{name} is missing"
        elif not kind.fits(of[name]):
            yield f"{where}{name}={printable(repr(of[name])[:40])} must be {kind.name}"
