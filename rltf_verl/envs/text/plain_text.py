r"""A text as the leak finders read it, and where its characters stand in the text as it was
written.

`View` is text with a map back; rewriting it keeps the map. `characters` and `without_markup` are
the first two views: what a reader sees, whatever code points or markup it is made of.

>>> characters("𝟖４ \u200b(Еmma)").text, without_markup(characters(r"**\mathbf{8}**")).text
('84 (Emma)', '  8  ')
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

MAX_TEXT = 20_000
"""Characters of a feedback that finders read; a longer one counts as unreadable."""


@dataclass(frozen=True, slots=True)
class View:
    """A reading of a text."""

    text: str
    starts: tuple[int, ...]
    """[len(text)] where each character begins in the text as it was written."""
    ends: tuple[int, ...]
    """[len(text)] where it ends there."""

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """`text[start:end]` in the text as it was written; it must not be empty."""
        return min(self.starts[start:end]), max(self.ends[start:end])

    def sub(self, pattern: re.Pattern[str], written: Callable[[re.Match[str]], str]) -> View:
        """The view with every match replaced; a replacement of the same length keeps each
        character's place.
        """
        return self.replaced(
            (*found.span(), written(found)) for found in pattern.finditer(self.text)
        )

    def replaced(self, pieces: Iterator[tuple[int, int, str]]) -> View:
        """The view with `text[start:end]` replaced, for pieces (start, end, new) in order that do
        not overlap.
        """
        text: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        done = 0
        for start, end, new in pieces:
            text += [self.text[done:start], new]
            starts += self.starts[done:start]
            ends += self.ends[done:start]
            if len(new) == end - start:
                starts += self.starts[start:end]
                ends += self.ends[start:end]
            elif new:
                first, last = (
                    self.origin(start, end) if end > start else (self._at(start), self._at(start))
                )
                starts += [first] * len(new)
                ends += [last] * len(new)
            done = end
        if not done:
            return self
        rest = slice(done, None)
        return View(
            "".join([*text, self.text[rest]]),
            (*starts, *self.starts[rest]),
            (*ends, *self.ends[rest]),
        )

    def _at(self, place: int) -> int:
        return (
            self.starts[place] if place < len(self.starts) else (self.ends[-1] if self.ends else 0)
        )


def as_written(text: str) -> View:
    """The text itself."""
    return View(text, tuple(range(len(text))), tuple(range(1, len(text) + 1)))


_ENTITY = re.compile(r"&(?:#\d{1,6}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});")
_MIXED = re.compile(r"[^\W\d_]+")
_LOOK_ALIKE = str.maketrans(
    "АВЕЗІКМНОРСТХУЈЅавеіјкмнорстухѕԁɡΑΒΕΖΗΙΚΜΝΟΡΤΥΧαεικνορτυχ",
    "ABE3IKMHOPCTXYJSabeijkmhopctyxsdgABEZHIKMNOPTYXaeikvoptux",
)
_SUPERSCRIPT = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_SIGNS = {
    "−": "-",
    "‐": "-",
    "‑": "-",
    "﹣": "-",
    "⁄": "/",
    "∕": "/",
    "∶": ":",
    "\u2028": "\n",
    "\u2029": "\n",
    "。": ".",
    "、": ",",
    "，": ",",
    "：": ":",
    "；": ";",
    "∣": "|",
    "│": "|",
    "┃": "|",
    "║": "|",
    "\u00a0": " ",
}
_KEPT = frozenset("≠≤≥∉²³¹")


def characters(text: str) -> View:
    """The same characters in their plain form: digits of every script, no marks, no invisible ones,
    no look-alikes.
    """
    view = as_written(text).sub(_ENTITY, lambda found: html.unescape(found[0]))
    view = view.sub(_SUPERSCRIPT, _raised)
    if view.text.isascii():
        return view
    shown = [_plain(character) for character in view.text]
    view = view.replaced(
        (i, i + 1, new)
        for i, (old, new) in enumerate(zip(view.text, shown, strict=True))
        if old != new
    )
    return view.sub(_MIXED, _latin)


def _raised(found: re.Match[str]) -> str:
    before = found.string[: found.start()][-1:]
    digits = "".join(str(unicodedata.digit(c)) for c in found[0])
    return f"^{digits}" if before.isalnum() or before == ")" else digits


@lru_cache(maxsize=4096)
def _plain(character: str) -> str:
    if character.isascii() or character in _KEPT:
        return character
    if character in _SIGNS:
        return _SIGNS[character]
    if unicodedata.category(character) in ("Cf", "Mn", "Me", "Cs", "Co"):
        return ""
    digit = unicodedata.digit(character, None)
    if digit is not None:
        return str(digit)
    if "\u2680" <= character <= "\u2685":  # dice
        return str(ord(character) - 0x267F)
    value = (
        unicodedata.numeric(character, None) if unicodedata.category(character) == "No" else None
    )
    folded = unicodedata.normalize("NFKC", character)
    if folded == character and value is not None and value == int(value):
        return str(int(value))
    return "".join(_SIGNS.get(c, c) for c in map(_base, folded))


def _base(character: str) -> str:
    """A Latin, Greek or Cyrillic letter without its marks; marks of other scripts are part of the
    letter.
    """
    letter = unicodedata.normalize("NFD", character)[0]
    return letter if letter.isalpha() and ord(letter) < 0x530 else character


def _latin(found: re.Match[str]) -> str:
    """A word of Latin and other letters, in Latin letters."""
    word = found[0]
    return (
        word.translate(_LOOK_ALIKE)
        if any(c.isascii() for c in word) and not word.isascii()
        else word
    )


_ARROWS = {"right": "→", "left": "←", "up": "↑", "down": "↓"}
_COMMAND = re.compile(
    r"\\(?:(?P<arrow>[rR]ight|[lL]eft|[uU]p|[dD]own)arrow|long(?P<long>right|left)arrow|(?P<to>to|mapsto)(?![a-zA-Z])"
    r"|(?P<space>left|right|quad|qquad|displaystyle|big|Big|bigl|bigr|,|;|!|:|"
    r" )(?![a-zA-Z])|(?P<per>%))"
)
_WRAPPER = re.compile(
    r"\\(?:text|math|m|h|f)?(?:bf|rm|it|tt|sf|bb|cal|frak|normal|up|box|series|emph|bm|boldsymbol|operatorname|underline"
    r"|overline|uline|textcolor\s*\{\w*\}|color\s*\{\w*\}|text|bold)\*?\s*(?=\{)|[{}]"
)


def without_latex(view: View) -> View:
    r"""The view without wrappers such as `\mathbf{…}`, `\text{…}`, `\left`, `\,`; boxes and
    fractions stay."""
    if "\\" not in view.text:
        return view
    view = view.sub(_COMMAND, _symbol)
    return view.replaced(iter(sorted(_unwrapped(view.text))))


def _symbol(found: re.Match[str]) -> str:
    way = (found["arrow"] or found["long"] or ("right" if found["to"] else "")).lower()
    return f" {_ARROWS[way]} " if way else "%" if found["per"] else " "


def _unwrapped(text: str) -> Iterator[tuple[int, int, str]]:
    """The wrappers and their two braces."""
    opened: list[bool] = []
    wraps = False
    for found in _WRAPPER.finditer(text):
        if found[0] == "{":
            opened.append(wraps)
            if wraps:
                yield (*found.span(), "")
        elif found[0] == "}":
            if opened and opened.pop():
                yield (*found.span(), "")
        else:
            yield (*found.span(), "")
        wraps = found[0] not in "{}"


_ROW_TAG = re.compile(
    r"</?(?:tr|br|p|li|div|ul|ol|table|thead|tbody|pre)\b[^<>]{0,80}>", re.IGNORECASE
)
_CELL_TAG = re.compile(r"</?(?:td|th)\b[^<>]{0,80}>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][\w-]{0,15}(?:\s[^<>]{0,80})?>")
_RULE = re.compile(r"^[ \t|:+=-]{3,}$", re.MULTILINE)
_EMPHASIS = re.compile(
    r"\*\*|__|~~|`+|\$+|(?<![\w*])\*(?=\w)|(?<=\w)\*(?![\w*])|(?<![^\W_])_(?=\w)|(?<=\w)_(?![^\W_])"
)
_LETTERS = re.compile(
    r"(?<![^\W_])[^\W\d_](?P<by>[ .·_-])[^\W\d_](?:(?P=by)[^\W\d_]){1,40}(?![^\W_])"
)


def without_markup(view: View) -> View:
    """The view without emphasis, tags, table rules, and with s-p-e-l-l-e-d words joined. What is
    cut leaves blanks.
    """
    view = without_latex(view)
    view = view.sub(_ROW_TAG, lambda found: "\n".ljust(len(found[0])))
    view = view.sub(_CELL_TAG, lambda found: "|".ljust(len(found[0])))
    for markup in (_TAG, _RULE, _EMPHASIS):
        view = view.sub(markup, lambda found: " " * len(found[0]))
    return view.sub(_LETTERS, lambda found: re.sub(r"[ .·_-]", "", found[0]))
