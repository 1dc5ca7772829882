"""Second answers that mention the feedback: a first answer must not learn to say "as the critique
pointed out".
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def mentions(text: str, phrases: Sequence[str]) -> list[tuple[int, int]]:
    """[start, end) of every occurrence of a phrase, in any case and at word boundaries.

    Example:
        >>> mentions("Using the Feedback, 3.", ["feedback"])
        [(10, 18)]
    """
    # Longest first: an alternation takes the first that matches. \b would fail beside punctuation.
    pattern = "|".join(re.escape(phrase) for phrase in sorted(phrases, key=len, reverse=True))
    return [m.span() for m in re.finditer(rf"(?<!\w)(?:{pattern})(?!\w)", text, re.IGNORECASE)]


def touching(pieces: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[bool]:
    """Per token whether some of its text lies in one of the [start, end) of the whole text."""
    touched, position = [], 0
    for piece in pieces:
        end = position + len(piece)
        touched.append(any(start < end and position < stop for start, stop in spans))
        position = end
    return touched
