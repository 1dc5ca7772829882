"""What all sets of labelled texts share."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from rltf_verl.types import Problem

LEAKS = ("direct", "paraphrased", "spelled", "partial", "oblique")
KINDS = (*LEAKS, "innocent")
MAX_TRIES = 400
"""Cases in a row that give no new text; then there are too few wordings."""


@dataclass(frozen=True)
class Labelled:
    """One feedback text."""

    kind: str
    problem: Problem
    attempt: str
    text: str


class Case(Protocol):
    """What a text is about: a problem and a wrong attempt at it."""

    @property
    def problem(self) -> Problem: ...
    @property
    def attempt_text(self) -> str: ...
    @property
    def rng(self) -> random.Random: ...


C = TypeVar("C", bound=Case)
Wording = Callable[[C], str]
"""Says something about a case; empty if that cannot be said of this one."""
Wordings = Mapping[str, Sequence[Wording[C]]]
"""Kind -> its wordings."""


def draw_texts(
    wordings: Wordings[C], cases: Iterator[C], num: Mapping[str, int]
) -> Iterator[Labelled]:
    """Texts of every kind, each different, each about the next case and in any of the kind's
    wordings.
    """
    for kind, wanted in num.items():
        seen: set[str] = set()
        tries = 0
        while len(seen) < wanted:
            case = next(cases)
            text = case.rng.choice(wordings[kind])(case)
            tries += 1
            if text and text not in seen:
                seen.add(text)
                tries = 0
                yield Labelled(kind, case.problem, case.attempt_text, text)
            if tries > MAX_TRIES:
                raise ValueError(
                    f"only {len(seen)} different texts of kind {kind}, {wanted} are wanted"
                )


def listed(parts: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}"
