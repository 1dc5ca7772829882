r"""Where an answer usually stands in a text, for environments that do not say: boxes, quotations,
last lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rltf_verl.envs.base import Candidate

MAX_SPAN = 400
"""Longest passage that is taken for an answer."""

_BOXED = re.compile(r"\\boxed\s*\{")
_BARE_BOX = re.compile(r"\\boxed\s+([A-Za-z0-9]+)")
_QUOTED = re.compile(
    r"\"([^\"\n]+)\"|“([^”\n]+)”|«([^»\n]+)»|`([^`\n]+)`|(?<!\w)'([^'\n]+)'(?!\w)|\$([^$\n]+)\$|\*\*([^*\n]+)\*\*"
)
MAX_SPANS = 200
"""Passages of one text that are looked at."""

_TOLD = re.compile(
    r"\b(?:answer|result|solution|value|total|outcome)s?\b[^.\n:=]{0,40}?(?:\bis\b|\bare\b|\bequals\b|\bbe\b|:|=)["
    r" \t]*"
    r"(?:(?:exactly|simply|just|actually|in fact|therefore|the number)[ \t]+)?",
    re.IGNORECASE,
)
_END = re.compile(r"[.!?](?:\s|$)|[;,]\s|\s(?:and|but|because|not|since|so|which)\s")


def usual_candidates(text: str) -> list[Candidate]:
    """Passages that may be the answer, each also as `\\boxed{…}`, since some graders read nothing
    else.
    """
    spans = {
        span
        for span in (*_boxes(text), *_quotations(text), *_told(text), *_last_lines(text))
        if _fits(*span)
    }
    found = []
    for start, end in sorted(spans)[:MAX_SPANS]:
        passage = text[start:end]
        found += [Candidate(start, end, passage), Candidate(start, end, f"\\boxed{{{passage}}}")]
    return found


def _fits(start: int, end: int) -> bool:
    return 0 < end - start <= MAX_SPAN


def _boxes(text: str) -> Iterator[tuple[int, int]]:
    for box in _BOXED.finditer(text):
        depth = 1
        for i in range(box.end(), min(len(text), box.end() + MAX_SPAN + 1)):
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            if depth == 0:
                yield box.end(), i
                break
        else:
            yield box.end(), len(text)
    for box in _BARE_BOX.finditer(text):
        yield box.span(1)


def _quotations(text: str) -> Iterator[tuple[int, int]]:
    for quoted in _QUOTED.finditer(text):
        yield next(quoted.span(i) for i in range(1, 8) if quoted[i] is not None)


def _told(text: str) -> Iterator[tuple[int, int]]:
    """What follows `the answer is`: up to every place where it could end."""
    for told in _TOLD.finditer(text):
        start = told.end()
        line_end = text.find("\n", start)
        limit = min(len(text) if line_end < 0 else line_end, start + MAX_SPAN)
        for end in (*(m.start() for m in _END.finditer(text, start, limit)), limit):
            yield _stripped(text, start, end)


def _last_lines(text: str) -> Iterator[tuple[int, int]]:
    """The last line, and the last paragraph when it has several lines."""
    last = text.rstrip()
    for mark in ("\n", "\n\n"):
        yield _stripped(text, last.rfind(mark) + len(mark) if mark in last else 0, len(last))


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in " \t\n\"'`*$([{“":
        start += 1
    while end > start and text[end - 1] in " \t\n\"'`*$)]}”.!,;:":
        end -= 1
    return start, end
