"""Does feedback speak of the attempt that it is about? Measured against a sibling's attempt, since
any two texts on one question share words (critiques aligned to the attempt: arXiv 2606.11173).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from rltf_verl.runlog.turns import Record, answer, group_of, wrong

_WORD = re.compile(r"\w+")
# `[3]`, `step 3`, `lines 3`
_STEP = re.compile(r"\[\d+\]|\b(?:step|line|statement|test)s? \d+", re.IGNORECASE)


class FeedbackOverlap(NamedTuple):
    """Overlap of one feedback text with attempts, without the question's words."""

    own: float
    """Share of its words and pairs of words that its attempt has."""
    sibling: float
    """The same for a sibling's wrong attempt: the control."""
    names_step: float
    """1 if it names a step of the attempt by its number, else 0."""


def aims_of(records: Iterable[Record]) -> list[FeedbackOverlap]:
    """The `aims` of all groups."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        if record["turns"]:
            groups[group_of(record)].append(record)
    return [aim for group in groups.values() for aim in aims(group)]


def aims(group: Sequence[Record]) -> list[FeedbackOverlap]:
    """Overlap of the feedback on each wrong first answer of a group that has a sibling with another
    one.

    Args:
        group: episodes at one problem in one step.
    """
    firsts = [record["turns"][0] for record in group]
    wrongs = [turn for turn in firsts if wrong(turn)]
    # what the question says is in every attempt, and aims at none
    question = _units(group[0]["question"]) if group else frozenset()
    measured = []
    for turn in wrongs:
        # the first one will do: the control needs any attempt but this one
        sibling = next((other for other in wrongs if answer(other) != answer(turn)), None)
        said = _units(turn["feedback"]["text"]) - question if turn["feedback"] else None
        if sibling is not None and said:
            own, other = (len(said & _units(t["text"])) / len(said) for t in (turn, sibling))
            names_step = _STEP.search(turn["feedback"]["text"]) is not None
            measured.append(FeedbackOverlap(own, other, float(names_step)))
    return measured


def _units(text: str) -> frozenset[str]:
    """Its words and pairs of words, in lower case."""
    words = _WORD.findall(text.lower())
    return frozenset([*words, *(f"{first} {second}" for first, second in pairwise(words))])
