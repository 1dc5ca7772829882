"""Whole paths, however a text lists them: moves in any language and sign, forwards or backwards,
cells, steps.

What is read counts only if it is a shortest path: as many moves, from the start to the destination.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from rltf_verl.envs.shortest_path.leaks_parts import Told
from rltf_verl.envs.shortest_path.leaks_words import COMPASS_OF, MOVE_OF, SIGN_OF, TYPED_OF
from rltf_verl.envs.shortest_path.mazes import STEPS, Maze
from rltf_verl.envs.text.encodings import BACKWARDS
from rltf_verl.envs.text.stated import cue_before

MIN_MOVES = 3
"""Fewer moves are also listed by chance or as examples: they count only as a list of their own."""
MIN_CELLS = 3
"""The start and the destination are no news."""
MAX_TOKENS = 600
MAX_GAP = 60
"""Characters between two moves of one list."""
MAX_TIMES = 30

_MOVE_BACK = {"R": "L", "L": "R", "U": "D", "D": "U"}
_EAST_ASIAN = "\u2e80"
_SPACED = "|".join(sorted((word for word in MOVE_OF if word < _EAST_ASIAN), key=len, reverse=True))
_UNSPACED = "|".join(word for word in MOVE_OF if word >= _EAST_ASIAN)
_TIMES = (
    r"(?:\s?(?:[x×*^]\s?|\(\s?)(?P<after>\d{1,2})\b"
    r"|\s+(?P<words>\d{1,2})\s+(?:times|steps|cells|squares|fields|mal|fois|veces))?"
)
_BEFORE = (
    r"(?:(?<![\w.,(#])(?P<before>\d{1,2})\s*(?:[x×*]|(?:steps?|cells?|squares?|times?|moves?|felder|schritte)\b"
    r"(?:\s+to(?:\s+the)?)?)?\s*)?"
)
_TOKEN = re.compile(
    rf"{_BEFORE}(?:(?<![^\W\d_])(?P<word>{_SPACED})(?:wards?|s)?(?![^\W\d_])|(?P<cjk>{_UNSPACED})|(?P<sign>[{''.join(SIGN_OF)}])"
    rf"|(?<![^\W\d_])(?P<run>[RDLU]{{1,60}})(?![^\W\d_])){_TIMES}",
    re.IGNORECASE,
)
_BREAK = re.compile(
    r"\b(?:you|your|yours|not|instead|or|if|wrong|never|example|e\.g)\b|\n\s*\n", re.IGNORECASE
)
_TYPED = re.compile(r"(?<![\w<>=!-])[><vV^](?:[\s,]?[><vV^])+(?![\w<>=])")
_COMPASS = re.compile(r"(?<![^\W_])[NESW](?:[\s,;-]{0,3}[NESW])+(?![^\W_])")
_CELL_FORMS = (
    re.compile(r"[(\[]\s?(\d{1,2})\s?[,;|]\s?(\d{1,2})\s?[)\]]"),
    re.compile(
        r"\br(?:ow)?[\s_=:]{0,2}(\d{1,2})\W{0,3}(?:and\s)?c(?:ol(?:umn)?)?[\s_=:]{0,2}(\d{1,2})\b",
        re.I,
    ),
    re.compile(
        r"\b(?:zeile|ligne|fila|riga|linha|rij)\s(\d{1,2})\W{1,3}"
        r"(?:spalte|colonne|columna|colonna|coluna|kolom)\s(\d{1,2})\b",
        re.I,
    ),
    re.compile(
        r"(?<![\w.,])(?:\d{1,2}\s?[,;|]\s?)?(\d{1,2})\s?[,;|]\s?(\d{1,2})(?![\w.]|\s?[,;|]\s?\d)"
    ),
    re.compile(r"(?<![\w])([A-Ja-j])(\d{1,2})(?![\w])"),
)
_VECTOR = re.compile(r"[(\[]\s?([+-]?[01])\s?,\s?([+-]?[01])\s?[)\]]")


def whole_paths(text: str, maze: Maze, length: int, attempt: str) -> Iterator[Told]:
    """Lists in the text that may be a path of `length` moves; `attempt` repeated is none."""
    backwards = bool(BACKWARDS.search(text)) or bool(_FROM_GOAL.search(text))
    for some in _lists(text):
        if "".join(one.moves for one in some) != attempt and (
            length >= MIN_MOVES or _is_list(text, some, length)
        ):
            yield from _windows(some, length, backwards)
    for told in _cell_lists(text, maze):
        if len(told.moves) == length and told.moves != attempt and length > 1:
            yield told


_FROM_GOAL = re.compile(
    r"\bfrom\s+(?:the\s+)?(?:destination|goal|end|target|finish|#)", re.IGNORECASE
)
_JOIN = re.compile(
    r"(?:[\W\d]|\b(?:and|then|dann|und|puis|et|luego|y|poi|e|depois|daarna|en|потом|затем|a|la|to|the|after|which|it|heads?|"
    r"go|going|next|step|from|times?)\b){0,20}",
    re.IGNORECASE,
)


def _is_list(text: str, some: list[Told], length: int) -> bool:
    """Few moves count only where nothing else stands between them, and no `if` or `your` in
    front.
    """
    joined = all(_JOIN.fullmatch(text, a.end, b.start) for a, b in pairwise(some))
    return (
        joined
        and 1 < sum(len(one.moves) for one in some) == length
        and not _BREAK.search(cue_before(text, some[0].start))
    )


def _lists(text: str) -> Iterator[list[Told]]:
    """Moves that stand close together."""
    yield from _joined(text, _moves(text))
    for pattern, moves in ((_TYPED, TYPED_OF), (_COMPASS, COMPASS_OF)):
        for found in pattern.finditer(text):
            places = [(i, moves[c]) for i, c in enumerate(found[0], found.start()) if c in moves]
            yield [Told(i, i + 1, move) for i, move in places]
    vectors = (
        Told(*found.span(), _move(int(found[1]), int(found[2]))) for found in _VECTOR.finditer(text)
    )
    yield from _joined(text, (vector for vector in vectors if vector.moves))


def _moves(text: str) -> Iterator[Told]:
    words = any(
        found["word"] or found["cjk"] for found in _TOKEN.finditer(text[: MAX_GAP * MAX_TOKENS])
    )
    for num, found in enumerate(_TOKEN.finditer(text)):
        if num == MAX_TOKENS:
            return
        if found["sign"] and words:
            continue  # arrows between words separate them
        word = (found["word"] or found["cjk"] or "").lower()
        moves = (
            MOVE_OF.get(word) or SIGN_OF.get(found["sign"] or "") or (found["run"] or "").upper()
        )
        times = int(found["before"] or found["after"] or found["words"] or 1)
        if found["run"] and found["run"].islower() and len(found["run"]) == 1:
            continue
        yield Told(*found.span(), moves * min(times, MAX_TIMES) if len(moves) == 1 else moves)


def _joined(text: str, told: Iterator[Told]) -> Iterator[list[Told]]:
    some: list[Told] = []
    for one in told:
        gap = text[some[-1].end : one.start] if some else ""
        if some and (len(gap) > MAX_GAP or _BREAK.search(gap)):
            yield some
            some = []
        some.append(one)
    if some:
        yield some


def _windows(some: list[Told], length: int, backwards: bool) -> Iterator[Told]:
    """Stretches of `length` moves, and read from their end where the text says so."""
    for i, first in enumerate(some):
        moves, k = "", i
        while k < len(some) and len(moves) < length:
            moves += some[k].moves
            k += 1
        if len(moves) == length:
            yield Told(first.start, some[k - 1].end, moves)
            if backwards:
                yield Told(first.start, some[k - 1].end, moves[::-1])
                yield Told(
                    first.start, some[k - 1].end, "".join(_MOVE_BACK[move] for move in moves[::-1])
                )


def _cell_lists(text: str, maze: Maze) -> Iterator[Told]:
    """Lists of cells in any notation, as moves from the start; cells may be counted from 0 or 1 or
    named x first.
    """
    for form in _CELL_FORMS:
        run: list[tuple[int, int, int, int]] = []
        for found in form.finditer(text):
            a = ord(found[1].upper()) - 65 if found[1].isalpha() else int(found[1])
            place = (*found.span(), a, int(found[2]))
            if run and (found.start() - run[-1][1] > MAX_GAP or len(run) == MAX_TOKENS):
                yield from _as_moves(run, maze)
                run = []
            run.append(place)
        yield from _as_moves(run, maze)


_AXES: tuple[Callable[[int, int], tuple[int, int]], ...] = (
    lambda a, b: (a, b),
    lambda a, b: (b, a),
    lambda a, b: (-b, a),
    lambda a, b: (b, -a),
)
"""Row and column of a cell that is written (row, column), (x, y), (x, y) with y upwards; the last
for completeness.
"""


def _as_moves(run: list[tuple[int, int, int, int]], maze: Maze) -> Iterator[Told]:
    if len(run) < MIN_CELLS:
        return
    for axes in _AXES:
        cells = [axes(a, b) for _, _, a, b in run]
        for way in (cells, cells[::-1]):
            steps = [_straight(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(way)]
            if all(steps):
                moves = "".join(steps)
                yield Told(run[0][0], run[-1][1], moves)
                for base in (0, 1):  # a list may leave out the start
                    first = way[0][0] - base - maze.start[0], way[0][1] - base - maze.start[1]
                    yield Told(run[0][0], run[-1][1], _move(*first) + moves)


def _straight(down: int, right: int) -> str:
    """The moves from one cell to another in its row or column; empty if there is none or they are
    the same.
    """
    if (down == 0) == (right == 0) or abs(down + right) > MAX_TIMES:
        return ""
    return _move((down > 0) - (down < 0), (right > 0) - (right < 0)) * abs(down + right)


def _move(down: int, right: int) -> str:
    return _MOVE_OF.get((down, right), "")


_MOVE_OF = {step: move for move, step in STEPS.items()}
