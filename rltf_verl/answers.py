"""Equality of two answers: one notion for rewards, metrics and reports."""

from __future__ import annotations


def answer_form(parsed: str | None, text: str) -> str:
    """The answer as it was graded, else the whole text; white space aside.

    Args:
        parsed: what the grader extracted (`Grade.parsed`), None if nothing.
        text: the whole attempt.

    Example:
        >>> answer_form(None, "so  I\\nthink") == answer_form("so I think", "another text")
        True
    """
    return " ".join((text if parsed is None else parsed).split())
