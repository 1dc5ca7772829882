"""Find the answer in a text: in a box, in a tag, else the last line."""

from __future__ import annotations

import re

from rltf_verl.envs.text.boxed import last_box

_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_TEXT = re.compile(r"\\(?:text|mathrm|mathtt|texttt)\s*\{([^{}]*)\}")


def said_answer(text: str) -> tuple[str, bool]:
    """The answer, empty without one, and whether it is in its place."""
    box = last_box(text)
    if box is not None:
        return _TEXT.sub(r"\1", box).strip(), True
    tagged = _last_tagged(text)
    if tagged is not None:
        return tagged.strip(), True
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else ""), False


def _last_tagged(text: str) -> str | None:
    """Contents of the last `<answer>…</answer>`; None if no such tag is closed."""
    start: int | None = None
    inside: slice | None = None
    for tag in _TAG.finditer(text):
        if not tag[1] and start is None:
            start = tag.end()
        elif tag[1] and start is not None:
            start, inside = None, slice(start, tag.start())
    return None if inside is None else text[inside]
