"""From a judge's reply to feedback: strict about what counts as feedback, forgiving about how it is
laid out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rltf_verl.texts import clean_text, without_chat_tokens, without_thoughts

SLACK = 2
"""A critique may be so many times as long as the judge was told before it is cut."""

LETTERS_PER_WORD = 12
"""Bounds texts that have no spaces."""

LONGEST = 200_000
"""Characters of a reply that are looked at; feedback is what comes last in it."""

_SENTENCE_END = re.compile(r"[.!?。！？](?=\s|$|[\"')])|\n")


@dataclass(frozen=True)
class Parsed:
    """Contents of a reply."""

    text: str
    """The feedback; empty if the reply has none that can be used."""
    noted: tuple[str, ...] = ()
    """Deviations from the task: `no_marker`, `cut_off`, `empty`, `over_long`."""


def parse_reply(reply: str, *, marker: str, words: int, complete: bool) -> Parsed:
    """The feedback in a reply.

    It is what follows the marker. Without one it is the last paragraph, unless the reply was cut
    off: that would be the judge's analysis, which may hold the answer. An over-long or cut-off text
    ends with its last whole sentence.

    Args:
        reply: the judge's text.
        marker: e.g. `Critique:`.
        words: the limit that the judge was told.
        complete: False if the reply was cut off at the token limit.
    """
    said = without_chat_tokens(without_thoughts(clean_text(reply))[-LONGEST:]).strip()
    noted = [] if complete else ["cut_off"]
    text = _after_marker(said, marker)
    if text is None:
        noted.append("no_marker")
        text = said.split("\n\n")[-1] if complete else ""
    text = text.strip()
    short = _bounded(text, SLACK * words)
    if short != text:
        noted.append("over_long")
    elif not complete:
        short = _whole_sentences(text)
    if not short:
        noted.append("empty")
    return Parsed(short, tuple(noted))


def _after_marker(text: str, marker: str) -> str | None:
    """Text after the last line that begins with the marker, else its last occurrence anywhere.

    Nothing in front of the marker may reach over a line end: every line would be read to the end of
    all blank ones.
    """
    word = re.escape(marker.removesuffix(":"))
    at_line = list(
        # `**Critique:**`, `> Critique:`, `## Critique :`
        re.finditer(rf"^(?:[^\S\n]|[>#*_-])*{word}(?:[^\S\n]|[*_])*:[*_]*", text, re.I | re.M)
    )
    anywhere = at_line or list(re.finditer(rf"{word}[*_]*:[*_]*", text))
    return text[anywhere[-1].end() :] if anywhere else None


def _bounded(text: str, words: int) -> str:
    """The text, or its whole sentences within so many words."""
    ends = [found.end() for found in re.finditer(r"\S+", text)]
    limit = ends[words - 1] if len(ends) > words else len(text)
    limit = min(limit, words * LETTERS_PER_WORD)
    return text if limit >= len(text) else _whole_sentences(text[:limit])


def _whole_sentences(text: str) -> str:
    """The text up to its last end of a sentence; all of it without one."""
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    return (text[: ends[-1]] if ends else text).strip()
