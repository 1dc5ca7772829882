"""Read an answer as a human would, and compare it where that needs no algebra."""

from __future__ import annotations

import re

from rltf_verl.envs.text.boxed import last_box

_TOLD = re.compile(r"\banswer(?:\s+is\b(?:\s*:)?|\s*[:=])\s*([^\n]+)", re.IGNORECASE)
_BLANKS = re.compile(r"(?<!\w)\s+|\s+(?!\w)|(?<=\d)\s+(?=\d{3}(?!\d))")
"""Those that say nothing: at the edges of signs, and before thousands."""
_WHOLE = re.compile(r"[+-]?(?:[0-9]{1,30}|[0-9]{1,3}(?:,[0-9]{3}){1,9})")


def said_answer(text: str) -> str | None:
    r"""The last `\boxed{}`, else what is said to be the answer; None if neither is there."""
    box = last_box(text)
    if box is not None:
        return box.strip()
    told = _TOLD.findall(text)
    return told[-1].strip().strip("*_ ").removesuffix(".").strip() or None if told else None


def plainly_equal(answer: str, reference: str) -> bool | None:
    """The verdict where it needs no algebra: the same text, or two whole numbers; else None."""
    if _BLANKS.sub("", answer) == _BLANKS.sub("", reference):
        return bool(answer.strip())
    ours, theirs = _whole(answer), _whole(reference)
    return None if ours is None or theirs is None else ours == theirs


def _whole(text: str) -> int | None:
    found = _WHOLE.fullmatch(text.strip().strip("$").strip())
    return int(found[0].replace(",", "")) if found else None
