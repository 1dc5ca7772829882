"""Requests to a judge, and its replies."""

from __future__ import annotations

from dataclasses import dataclass

from rltf_verl.texts import clean_text
from rltf_verl.types import Message


@dataclass(frozen=True)
class Call:
    """One question."""

    messages: tuple[Message, ...]
    seed: int


@dataclass(frozen=True)
class Reply:
    """The judge's reply."""

    text: str
    complete: bool = True
    """False: cut off at the token limit."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached: bool = False
    calls: tuple[tuple[str, str], ...] = ()
    """Tool and arguments as JSON text."""

    def __post_init__(self) -> None:
        """Whatever comes in from an endpoint, or from a cache, can be tokenised and logged."""
        object.__setattr__(self, "text", clean_text(self.text))
        calls = tuple((clean_text(name), clean_text(text)) for name, text in self.calls)
        object.__setattr__(self, "calls", calls)


class JudgeUnavailable(Exception):
    """No reply could be had.

    Args:
        cause: one line that says what failed and what to change.
    """

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause
