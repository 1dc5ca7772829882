"""Tokens of prompts: counts of several, and the second prompt without an attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rltf_verl.prompts import render, template_of
from rltf_verl.types import Message


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of several texts."""

    num: int
    median: float
    longest: int
    limit: int
    num_over: int
    """Texts above the limit."""


def lengths_of(counts: Sequence[int], limit: int) -> Lengths:
    """The lengths of texts of so many tokens, at least one."""
    over = sum(count > limit for count in counts)
    return Lengths(len(counts), median(counts), max(counts), limit, over)


def empty_revision(
    template: str, question: Sequence[Message], feedback: str, *, append: bool
) -> list[Message]:
    """The conversation of the second turn, after an attempt without text.

    Args:
        template: `rltf.episode.revise`.
        question: the first prompt.
        feedback: on the attempt.
        append: the conversation grows; else the new prompt takes the place of the question.
    """
    *before, last = question
    text = render(
        template_of("revise", template), question=last["content"], attempt="", feedback=feedback
    )
    revise = {"role": "user", "content": text}
    return (
        [*question, {"role": "assistant", "content": ""}, revise] if append else [*before, revise]
    )
