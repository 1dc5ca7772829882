r"""Read a sequence of moves, or the claim that there is no path, that someone wrote down in
whatever way.

Understood: `right, down`, `R, D`, `RRDD`, `["right", "down"]`, `1. right 2. down`, bullets,
`right -> down`, `→↓`, `\rightarrow \downarrow`, `\text{right}`; and `infeasible`, `impossible`,
`no path exists` and the like. A text with any other words in it is not an answer.
"""

from __future__ import annotations

import re

from rltf_verl.envs.shortest_path.mazes import STEPS
from rltf_verl.texts import split_words

NO_PATH = "none"
"""In place of moves (letters of `STEPS`): the text says that there is no path."""

NAMES = {"R": "right", "D": "down", "L": "left", "U": "up"}
_MOVES = {word: move for move, name in NAMES.items() for word in (name, move.lower())}
_ARROWS = {
    **dict.fromkeys(("→", "➡", "⇒", "\\rightarrow"), "R"),
    **dict.fromkeys(("↓", "⬇", "⇓", "\\downarrow"), "D"),
    **dict.fromkeys(("←", "⬅", "⇐", "\\leftarrow"), "L"),
    **dict.fromkeys(("↑", "⬆", "⇑", "\\uparrow"), "U"),
}
# `1.`, `2)`, `3:` in front of a move
_LABEL = re.compile(r"(?<![\w.])\d+\s*[.):](?!\d)")
# LaTeX words other than arrows, its spaces, and arrows that only part words
_MARKUP = re.compile(r"\\(?!(?:right|down|left|up)arrow)[a-z]+|\\[,;:! ]|->|=>|➔")
_TOKEN = re.compile(r"[^\W\d_]+|\\[a-z]+|[→➡⇒↓⬇⇓←⬅⇐↑⬆⇑]|\d+")
_STRONG = frozenset(split_words("infeasible impossible unreachable unfeasible"))
_WEAK = frozenset(
    split_words("path paths route way solution feasible possible reachable reached reach found")
)
_NEGATED = re.compile(
    r"\b(?:not|isn't|never|no)\s+(?:\w+\s+)?"
    r"(?:infeasible|impossible|unreachable|unfeasible|blocked|problem)\b"
)
_FILLERS = frozenset(
    split_words(
        "a an and answer are at begin below by can final finally first follow following follows "
        "for from go goal goes grid hence here i in is it last move moves my next of once one "
        "optimal path sequence shortest so solution start step steps take the then there "
        "therefore this thus to valid we with you destination"
    )
)
_NONE_FILLERS = _FILLERS.union(
    _STRONG,
    _WEAK,
    split_words("available because be blocked cannot could exist existing exists no not problem"),
    split_words("puzzle since t isn any such"),
)
# Up to the last `:`, `is` or `be` of a line.
_TAIL = re.compile(r".*(?::|\b(?:is|be)\b)", re.IGNORECASE)
_PUNCTUATION = ".,;()[]{}\"' "


def read_path(text: str) -> str | None:
    """All of `text` as an answer: moves, NO_PATH, or None for any other text."""
    text = text.lower().replace("’", "'").replace("\\\\", " ")  # first: `\\down` is two rows
    plain = _LABEL.sub(" ", _MARKUP.sub(" ", text))
    tokens = []
    for match in _TOKEN.finditer(plain):
        token = match[0]
        if token not in _NONE_FILLERS and token not in _ARROWS and not _as_moves(token):
            return None  # most texts end here, and soon
        tokens.append(token)
    words = [token for token in tokens if token not in _ARROWS]
    moves = "".join(map(_as_moves, words))
    if moves:  # arrows between words separate them
        return moves if all(word in _FILLERS or _as_moves(word) for word in words) else None
    if len(words) < len(tokens):
        if not _FILLERS.issuperset(words):
            return None
        return "".join(_ARROWS.get(token, "") for token in tokens)
    return NO_PATH if _says_none(plain, words) else None


def find_path(text: str) -> str | None:
    """The answer of a text without a box: all of it, its last line, or the line's end after an `is`
    or `:`.
    """
    last = last_line(text)
    tail = _TAIL.match(last)
    paths = (read_path(part) for part in (text, last, last[tail.end() :] if tail else last))
    return next((path for path in paths if path is not None), None)


def last_line(text: str) -> str:
    """The last line that is not blank."""
    return text.rstrip().rpartition("\n")[2]


def read_release_path(boxed: str) -> str:
    """Read a boxed text as the release does: its direction words, whatever is between; without one,
    NO_PATH.
    """
    text = boxed.lower()
    if any(words in text for words in ("infeasible", "impossible", "no path")):
        return NO_PATH
    words = re.split(r"[\s,.;]|and", text)
    return "".join(_MOVES.get(word.strip(_PUNCTUATION), "") for word in words) or NO_PATH


def spell(path: str) -> str:
    """An answer in words, as the prompt asks for it."""
    return "infeasible" if path == NO_PATH else ", ".join(NAMES[move] for move in path)


def _as_moves(word: str) -> str:
    if word in _MOVES:
        return _MOVES[word]
    letters = word.upper()
    # `RRDD`
    return letters if STEPS.keys() >= set(letters) else ""


def _says_none(plain: str, words: list[str]) -> bool:
    if _NEGATED.search(plain):
        return False
    denied = not {"no", "not", "cannot", "isn"}.isdisjoint(words)
    return not _STRONG.isdisjoint(words) or (denied and not _WEAK.isdisjoint(words))
