"""The text of each token, in a time that grows with their number and not with its square."""

from __future__ import annotations

from collections.abc import Callable, Sequence

UNFINISHED = "\N{REPLACEMENT CHARACTER}"


def pieces(decode: Callable[[Sequence[int]], str], ids: Sequence[int]) -> list[str]:
    """What each token adds to the text; together the text of all.

    A character may consist of several tokens: then the last of them has it, and the others have
    nothing. A tokenizer may decode a token in another way at the beginning of a text, so it is
    decoded behind those of the piece before.

    Args:
        decode: the tokenizer's.
        ids: [T].

    Example:
        >>> pieces(lambda ids: bytes(ids).decode("utf-8", "replace"), [97, 0xC3, 0xA9, 98])
        ['a', '', 'é', 'b']
    """
    found: list[str] = []
    before, done = 0, 0  # the last piece is that of ids[before:done]
    for end in range(1, len(ids) + 1):
        context, text = decode(ids[before:done]), decode(ids[before:end])
        whole = end == len(ids) or not text.endswith(UNFINISHED)
        found.append(text[len(context) :] if whole else "")
        if whole:
            before, done = done, end
    return found
