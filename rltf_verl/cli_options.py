"""`key=value` words of the command line."""

from __future__ import annotations

import ast
from typing import Any


def parse_options(words: list[str]) -> dict[str, Any]:
    """`key=value` words, values as literals where they are ones (also `true`, `false`, `null`), else as text."""
    pairs = [word.partition("=") for word in words]
    for (key, separator, _), word in zip(pairs, words, strict=True):
        if not (separator and key.replace(".", "_").isidentifier()):
            raise ValueError(f"{word!r}: options are written key=value")
    return {key: _literal(value) for key, _, value in pairs}


def _literal(text: str) -> Any:
    words = {"true": True, "false": False, "null": None}
    try:
        return words[text] if text in words else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
