"""Read an answer as a human would, and compare it where that needs no algebra."""

from __future__ import annotations

import math
import re

from rltf_verl.envs.text.boxed import WRAPPED, last_box

_TOLD = re.compile(
    r"\banswer[*_]{0,2}(?:\s+is\b(?:\s*:)?|\s*[:=])[\s*_`]*(?:(?:\\\[|\$\$)\s+)?([^\n]+)",
    re.IGNORECASE,
)
"""A formula may have lines of its own. No two neighbours match blanks, which would be quadratic."""
_MATHS = re.compile(r"[\d$\\]")
_BLANKS = re.compile(r"(?<!\w)\s+|\s+(?!\w)|(?<=\d)\s+(?=\d{3}(?!\d))")
"""Blanks without meaning: at the edges of signs, and before thousands."""
_THOUSANDS = r"(?:,(?:\\!)?|\{,\}|\\[,;: ]|~)"
r"""math-verify reads these as a product: `1\,234`."""
_WORD = re.compile(r"[^\W\d_]{4,}")
"""Shorter ones may be products; to math-verify all are, so that Alice is Celia."""
# `-12`, `1,234`, `1{,}234`, `1\,234`, `1~234`
_WHOLE = re.compile(rf"[+-]?(?:[0-9]{{1,3}}(?:{_THOUSANDS}[0-9]{{3}}){{1,9}}|[0-9]{{1,30}})")


_TIME = re.compile(r"\d{1,2}:(?:0\d|\d\d(?=\s*[ap]))(?:\s*[ap]\.?m\.?)?", re.IGNORECASE)
"""math-verify reads a quotient, so that 3 is 9:03."""
_SIDES = re.compile(r"=|\\(?:to|rightarrow)(?![a-z])|\\\\")
"""What parts the values of one answer: math-verify takes the last one of `41 = 42`."""
_RELATION = re.compile(r"[\s$]*(?:[<>≠≤≥]|!=|\\(?:ne|l[et]|g[et])q?(?:slant)?(?![a-z]))")
_RATIO = re.compile(r"\$?\d{1,30}(?:\s*:\s*\d{1,30}){2,9}\$?")
"""Ratios of three and more; math-verify reads quotients."""


def said_answer(text: str) -> str | None:
    r"""The last `\boxed{}`, else what is said to be the answer; None if neither is there."""
    box = last_box(text)
    if box is not None:
        return box.strip()
    announced = _TOLD.findall(text)
    # The last announcement with a digit or LaTeX in it; without one, the last.
    told = next(filter(_MATHS.search, reversed(announced)), announced[-1] if announced else "")
    return told.strip().strip("*_` ").removesuffix(".").strip("` ") or None


def plainly_equal(answer: str, reference: str) -> bool | None:
    """The verdict where it needs no algebra: the same text, two words, two ratios, a time, or a
    whole number; else None.
    """
    answer, reference = (" ".join(WRAPPED.sub(r"\1", t).split()) for t in (answer, reference))
    if _BLANKS.sub("", answer) == _BLANKS.sub("", reference):
        return bool(answer.strip())
    if _TIME.fullmatch(reference):
        said, time = (re.sub(r"[\s.]", "", text.casefold()) for text in (answer, reference))
        return time in (said, said.rstrip("apm")) or said == time.rstrip("apm")
    if _WORD.fullmatch(answer) and _WORD.fullmatch(reference):
        return answer.casefold() == reference.casefold()
    if _RATIO.fullmatch(answer) and _RATIO.fullmatch(reference):
        return _ratio(answer) == _ratio(reference)
    number, sides = _whole(reference), {_whole(side) for side in _SIDES.split(answer)}
    if number is None:
        return None
    if _RELATION.match(answer) or sides - {number, None}:
        return False
    return True if sides == {number} else None


def _ratio(text: str) -> list[int]:
    parts = list(map(int, re.findall(r"\d+", text)))
    return [part // max(math.gcd(*parts), 1) for part in parts]


def _whole(text: str) -> int | None:
    match = _WHOLE.fullmatch(text.strip().strip("$").strip())
    return int(re.sub(r"[^0-9+-]", "", match[0])) if match else None
