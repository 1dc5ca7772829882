"""Where a text holds the entry that is asked for, or a part that the question does not show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rltf_verl.envs.base import Candidate
from rltf_verl.envs.text.plain_text import MAX_TEXT

MIN_PART = 3
"""Characters of a part from which on it is no chance that a text holds it."""


def style_candidates(
    text: str, reference: str, whole: Sequence[str], parts: Sequence[str], plain: str, attempt: str
) -> list[Candidate]:
    """Passages that state the answer or a part of it.

    Args:
        text: the feedback.
        reference: an answer that is graded correct.
        whole: texts each of which is the answer.
        parts: pieces of the answer, as the house writes them.
        plain: the question; what stands there is no news.
        attempt: what the feedback is about, as well no news.
    """
    text = text[:MAX_TEXT]
    told = [Candidate(*span, reference) for answer in whole for span in _places(text, answer)]
    news = [
        part
        for part in parts
        if len(part) >= MIN_PART and part not in plain and part not in attempt
    ]
    return told or [
        Candidate(*span, reference, part=True) for part in news for span in _places(text, part)
    ]


def _places(text: str, passage: str) -> Iterator[tuple[int, int]]:
    """The passage with any blanks between its words and signs, in this case."""
    tokens = re.findall(r"\w+|[^\w\s]", passage)
    if not tokens:
        return
    pattern = r"\s*".join(map(re.escape, tokens))
    for found in re.finditer(rf"(?<!\w){pattern}(?!\w)", text):
        yield found.span()
