"""The text of each token, in linear time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
LONGEST = 64
"""Tokens of a chunk at most: one that has no whole character by then is lone bytes."""


def token_texts(decode: Callable[[Sequence[int]], str], ids: Sequence[int]) -> list[str]:
    """The text that each token adds; joined, the text of all.

    A character may consist of several tokens: then the last of them has it, and the others are
    empty. A tokenizer may decode a token in another way at the beginning of a text, so each chunk
    is decoded together with the chunk before it.

    Args:
        decode: the tokenizer's.
        ids: [T].

    Example:
        >>> token_texts(lambda ids: bytes(ids).decode("utf-8", "replace"), [97, 0xC3, 0xA9, 98])
        ['a', '', 'é', 'b']
    """
    texts: list[str] = []
    before, done = 0, 0  # the last chunk is ids[before:done]
    for end in range(1, len(ids) + 1):
        context, text = decode(ids[before:done]), decode(ids[before:end])
        whole = end - done == LONGEST or end == len(ids) or not text.endswith(UNFINISHED)
        texts.append(text[len(context) :] if whole else "")
        if whole:
            before, done = done, end
    return texts
