"""Where a pattern stands in what was said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rltf_verl.runlog.turns import Record


@dataclass(frozen=True)
class Hit:
    """One line with at least one match."""

    record: Record
    turn: int
    """From 1."""
    where: str
    """`attempt`, `feedback` or `withheld`."""
    line: str
    spans: tuple[tuple[int, int], ...]
    """Where the matches stand in the line."""


def compiled(pattern: str) -> re.Pattern[str]:
    """A regular expression of the user.

    Raises:
        ValueError: it is none.
    """
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(
            f"pattern {pattern!r}: {error}; a regular expression of Python is needed"
        ) from None


def grep(records: Iterable[Record], pattern: re.Pattern[str]) -> Iterator[Hit]:
    """All lines of attempts and feedback, withheld feedback too, that the pattern matches; in the
    order of the log.
    """
    for record in records:
        for k, turn in enumerate(record["turns"], start=1):
            feedback, withheld = turn["feedback"] or {}, turn.get("withheld") or {}
            texts = {
                "attempt": turn["text"],
                "feedback": feedback.get("text"),
                "withheld": withheld.get("text"),
            }
            for where, text in texts.items():
                for line in (text or "").split("\n"):
                    spans = tuple(match.span() for match in pattern.finditer(line))
                    if spans:
                        yield Hit(record, k, where, line, spans)
