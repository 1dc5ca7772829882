r"""A feedback text as the leak finders read it, with a map back to the text as it was written.

`readings` gives two views: the text in plain characters, and the same without markup and with
digits for number words.

>>> [view.text for view in readings("𝟖４ \u200b**eighty-four** \\mathbf{8}")]
['84 **eighty-four** \\mathbf{8}', '84   84           8 ']
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from rltf_verl.envs.text.number_words import NUMBER_WORDS, in_digits

MAX_TEXT = 20_000
"""Characters of a feedback that finders read; a longer one counts as unreadable."""
MAX_GAP = 80
"""Characters of prose between two parts of one statement."""
BACKWARDS = re.compile(
    r"\bback\s?wards?\b|\bback to\b|\brevers|\bright[\s-]to[\s-]left\b|\blast to first\b"
    r"|\bfrom\s+(?:the\s+)?(?:destination|goal|end|target|finish|last)\b",
    re.IGNORECASE,
)
"""Words that announce a list from its end."""


@dataclass(frozen=True, slots=True)
class View:
    """A reading of a text."""

    text: str
    starts: tuple[int, ...]
    """[len(text)] where each character begins in the text as it was written."""
    ends: tuple[int, ...]
    """[len(text)] where it ends there."""

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """`text[start:end]`, which must not be empty, in the text as it was written."""
        return self.starts[start], self.ends[end - 1]

    def sub(self, pattern: re.Pattern[str], written: Callable[[re.Match[str]], str]) -> View:
        """The view with every match replaced; a match must not be empty. A replacement of the same
        length keeps each character's place.
        """
        text: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        done = 0
        for match in pattern.finditer(self.text):
            (start, end), new = match.span(), written(match)
            text += [self.text[done:start], new]
            starts += self.starts[done:start]
            ends += self.ends[done:start]
            same_length = len(new) == end - start
            first, last = self.origin(start, end)
            starts += self.starts[start:end] if same_length else [first] * len(new)
            ends += self.ends[start:end] if same_length else [last] * len(new)
            done = end
        rest = slice(done, None)
        return View(
            "".join([*text, self.text[rest]]),
            (*starts, *self.starts[rest]),
            (*ends, *self.ends[rest]),
        )


_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SIGNS = {
    **dict.fromkeys("−‐‑﹣", "-"),
    **dict.fromkeys("⁄∕", "/"),
    **dict.fromkeys("∣│┃║", "|"),
    **dict.fromkeys("\u2028\u2029", "\n"),
    "∶": ":",
    "。": ".",
    "、": ",",
}
_KEPT = frozenset("≠≤≥∉⁰¹²³⁴⁵⁶⁷⁸⁹")
_BLANKED = re.compile(
    r"\\(?:begin|end)\{\w{0,20}\*?\}(?:\{[clr|\s]{0,20}\})?"  # environments
    r"|\\(?:text|math|boxed|emph|left|right|quad|qquad|displaystyle|big|operatorname)"
    r"(?:bf|rm|it|tt|sf|normal)?(?![a-zA-Z])\*?"  # wrappers and spacing; `\rightarrow` stays
    r"|\\[,;:! ]"
    r"|</?[a-zA-Z][\w-]{0,15}(?:\s[^<>]{0,80})?>"
    r"|^[ \t|:+=-]{3,}$"  # the rule of a table
    r"|\*\*|__|~~|`+|[${}]"
    r"|(?<![\w*])\*(?=\w)|(?<=\w)\*(?![\w*])|(?<![^\W_])_(?=\w)|(?<=\w)_(?![^\W_])",
    re.MULTILINE,
)
"""LaTeX wrappers, emphasis, tags and table rules."""


def readings(text: str) -> tuple[View, ...]:
    """The different readings of a text."""
    written = View(text, tuple(range(len(text))), tuple(range(1, len(text) + 1)))
    plain = written.sub(_NOT_ASCII, lambda match: _plain(match[0]))
    bare = plain.sub(_BLANKED, lambda match: " " * len(match[0])).sub(NUMBER_WORDS, in_digits)
    return (plain,) if bare.text == plain.text else (plain, bare)


@lru_cache(maxsize=4096)
def _plain(character: str) -> str:
    """The character as ASCII where it has such a form; nothing for a mark or an invisible one."""
    if character in _KEPT:
        return character
    # Format characters, combining marks, half surrogates, private use
    if unicodedata.category(character) in ("Cf", "Mn", "Me", "Cs", "Co"):
        return ""
    # Digits of any script, and of mathematics: `٣`, `𝟖`.
    digit = unicodedata.digit(character, None)
    folded = unicodedata.normalize("NFKC", character) if digit is None else str(digit)
    return "".join(_SIGNS.get(c, c) for c in folded)


def cue_before(text: str, start: int) -> str:
    """The words of the same sentence in front of a passage."""
    before = text[max(0, start - MAX_GAP) : start]
    cuts = [match.end() for match in re.finditer(r"[.!?]\s|\n\s*\n", before)]
    return before[cuts[-1] :] if cuts else before
