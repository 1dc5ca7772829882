"""How much of an episode the page holds: a browser lays out a megabyte of text for minutes.

Of what is too long the page has beginning and end, and it shows how much is left out and what
prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

MOST_TEXT, MOST_EPISODE = 100_000, 300_000
"""Characters of one text, and of all texts of an episode."""
LEAST_TEXT = 200
"""Characters that each text has, however many there are."""
MOST_TOKENS, MOST_EPISODE_TOKENS = 10_000, 20_000
"""Tokens of one row, and of all rows of an episode."""
LEAST_TOKENS = 20
"""Tokens that each row has, however many there are."""


def bounded_texts(value: T, step: int) -> T:
    """A JSON value without the middles of its long texts; `step` is that of the episode."""
    lengths = [len(text) for text in _texts(value)]
    most = max(LEAST_TEXT, _share(lengths, MOST_TEXT, MOST_EPISODE))
    bounded: T = _cut(value, most, step)
    return bounded


def bounded_tokens(rows: Sequence[Any], step: int) -> list[Any]:
    """Per row the columns of its tokens (None where the log has none) without the middle of a long
    row: `left_out` is then where it was, how many tokens it had, and what to show in its place.
    """
    lengths = [len(row["text"]) for row in rows if row]
    most = max(LEAST_TOKENS, _share(lengths, MOST_TOKENS, MOST_EPISODE_TOKENS))
    shown = [row and _without_middle(row, most, step) for row in rows]
    texts = bounded_texts([row and row["text"] for row in shown], step)
    return [row and {**row, "text": text} for row, text in zip(shown, texts, strict=True)]


def _share(lengths: Sequence[int], most: int, total: int) -> int:
    """What each may have, at most `most`, for all of them to fit in `total`; short ones leave the
    others more.
    """
    left = total
    for k, length in enumerate(sorted(lengths)):
        share = left // (len(lengths) - k)
        if length > share:
            return min(share, most)
        left -= length
    return most


def _without_middle(columns: Mapping[str, Any], most: int, step: int) -> dict[str, Any]:
    length = len(columns["text"])
    if length <= most:
        return dict(columns)
    half = most // 2
    number = length - 2 * half
    shown = {name: [*column[:half], *column[-half:]] for name, column in columns.items()}
    note = _note(f"{number} tokens", step)
    return shown | {"left_out": {"at": half, "number": number, "note": note}}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for one in inner:
        yield from _texts(one)


def _cut(value: Any, most: int, step: int) -> Any:
    """`value` with at most about `most` characters of each text in it."""
    if isinstance(value, str) and len(value) > most:
        half = most // 2
        note = _note(f"{len(value) - 2 * half} characters", step)
        return f"{value[:half]}\n{note}\n{value[-half:]}"
    if isinstance(value, dict):
        return {key: _cut(one, most, step) for key, one in value.items()}
    return [_cut(one, most, step) for one in value] if isinstance(value, list) else value


def _note(amount: str, step: int) -> str:
    return f"[… {amount} are not on this page: rltf inspect LOG --step {step} prints them …]"
