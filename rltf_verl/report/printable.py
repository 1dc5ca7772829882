"""Text that a model wrote, for a terminal."""

from __future__ import annotations


def printable(text: object) -> str:
    """`text` without control characters (a model may write escape sequences); line ends and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in str(text))
