"""Limits of an episode on the page: a browser lays out many tokens for minutes.

A long text keeps its beginning and its end; a note in between has the number of what is left out
and the command that prints it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MOST_TEXT, MOST_TOKEN = 100_000, 1000
"""Characters of a text, and of a token's text."""
MOST_TOKENS, MOST_EPISODE_TOKENS = 10_000, 20_000
"""Tokens of one row, and of all rows of an episode."""
LEAST_TOKENS = 20
"""Tokens that each row has, however many rows there are."""


def bounded(value: Any, step: int, most: int = MOST_TEXT) -> Any:
    """A JSON value without the middles of its long texts.

    Args:
        value: of an episode.
        step: of the episode.
        most: characters of a text, about.
    """
    if isinstance(value, str) and len(value) > most:
        # both ends: a text's end says how it came out
        half = most // 2
        note = _note(f"{len(value) - 2 * half} characters", step)
        return f"{value[:half]}\n{note}\n{value[-half:]}"
    if isinstance(value, dict):
        return {key: bounded(item, step, most) for key, item in value.items()}
    return [bounded(item, step, most) for item in value] if isinstance(value, list) else value


def bounded_tokens(rows: Sequence[Any], step: int) -> list[Any]:
    """Per row the columns of its tokens (None where the log has none) without the middle of a long
    row: `left_out` has its position, its number of tokens, and the note to show there.
    """
    share = MOST_EPISODE_TOKENS // max(1, len(rows))
    most = min(MOST_TOKENS, max(LEAST_TOKENS, share))
    return [row and bounded(_without_middle(row, most, step), step, MOST_TOKEN) for row in rows]


def _without_middle(columns: Mapping[str, Any], most: int, step: int) -> dict[str, Any]:
    length = len(columns["text"])
    if length <= most:
        return dict(columns)
    half = most // 2
    number = length - 2 * half
    shown = {name: [*column[:half], *column[-half:]] for name, column in columns.items()}
    note = _note(f"{number} tokens", step)
    return shown | {"left_out": {"at": half, "number": number, "note": note}}


def _note(amount: str, step: int) -> str:
    return f"[… {amount} are not on this page: rltf inspect LOG --step {step} prints them …]"
