"""The readings of a feedback text in which the leak guard looks for the answer, each with a map
back to the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rltf_verl.envs.text.arithmetic_phrases import worked_out
from rltf_verl.envs.text.encodings import backwards, decoded
from rltf_verl.envs.text.number_reading import with_digits
from rltf_verl.envs.text.plain_text import View, characters, without_latex, without_markup

ANSWER = "The answer is: "
"""In front of a passage that was in code: nobody encodes what is not the answer."""
_PLURAL = re.compile(r"\b(zero|one|two|three|four|five)e?s\b", re.IGNORECASE)
_DIGIT = {"zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5"}


def readings(text: str) -> Iterator[View]:
    """Every different reading: plain characters, no markup, digits and values for words, and what
    is in code.
    """
    seen: set[str] = set()
    for view in _readings(text):
        if view.text not in seen:
            seen.add(view.text)
            yield view


def _readings(text: str) -> Iterator[View]:
    plain = characters(text)
    yield plain
    yield without_latex(plain)
    bare = without_markup(plain)
    yield bare
    numbers = with_digits(bare.sub(_PLURAL, lambda found: f"{_DIGIT[found[1].lower()]}s"))
    yield numbers
    yield worked_out(numbers)
    for view, passages in ((plain, decoded(plain.text)), (bare, backwards(bare.text))):
        for start, end, said in passages:
            yield _said(view, start, end, said)


def _said(view: View, start: int, end: int, said: str) -> View:
    first, last = view.origin(start, end)
    told = ANSWER + said
    return View(told, (first,) * len(told), (last,) * len(told))
