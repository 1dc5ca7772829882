"""Finds where a text lists the moves or cells of a shortest path, or states that there is no path.

A list counts only if it is a shortest path: the grader decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from typing import NamedTuple

from rltf_verl.envs.base import Candidate
from rltf_verl.envs.shortest_path.mazes import STEPS, Maze
from rltf_verl.envs.shortest_path.text import NO_PATH
from rltf_verl.envs.text.plain_text import BACKWARDS, MAX_TEXT, cue_before

MIN_MOVES = 3
"""Fewer moves are also listed by chance: they count only where the text calls them the answer."""
MIN_CELLS = 3
"""The start and the destination are no news."""
MAX_TOKENS = 600
MAX_GAP = 60
"""Characters between two moves of one list."""
MAX_TIMES = 30

_MOVE_OF_WORD = {
    **dict.fromkeys(("right", "east"), "R"),
    **dict.fromkeys(("down", "south"), "D"),
    **dict.fromkeys(("left", "west"), "L"),
    **dict.fromkeys(("up", "north"), "U"),
}
_MOVE_OF_SIGN = {
    **dict.fromkeys("→➡⇒", "R"),
    **dict.fromkeys("↓⬇⇓", "D"),
    **dict.fromkeys("←⬅⇐", "L"),
    **dict.fromkeys("↑⬆⇑", "U"),
}
_BACK = {"R": "L", "L": "R", "U": "D", "D": "U"}
_COUNTED = r"(?:steps?|cells?|squares?|times?|moves?)\b"
_TOKEN = re.compile(
    rf"(?:(?<![\w.,(#])(?P<before>\d{{1,2}}|once|twice|thrice)\s*(?:[x×*]|{_COUNTED}(?:\s+to\s+the)?)?\s*)?"
    rf"(?:(?<![^\W\d_])(?:(?P<word>{'|'.join(_MOVE_OF_WORD)})(?:wards?|s)?|(?P<letters>[RDLU]{{1,60}}))"
    r"(?![^\W\d_])|(?P<arrow>[→➡⇒↓⬇⇓←⬅⇐↑⬆⇑]))"
    rf"(?:\s?(?:[x×*^]\s?|\(\s?)?(?P<factor>\d{{1,2}})\b(?!\.)|\s+(?:for\s+)?(?P<times>\d{{1,2}})\s+{_COUNTED}"
    r"|\s+(?P<often>once|twice|thrice)\b)?",
    re.IGNORECASE,
)
"""One move or several: `2 cells right`, `right x2`, `down twice`, `R2`, `RRDD`, `→`."""
_TIMES = {"once": 1, "twice": 2, "thrice": 3}
# Words that part two lists of moves, or make one of them the attempt's.
_BREAK = re.compile(
    r"\b(?:you|your|yours|not|instead|or|if|wrong|never|example|e\.g)\b|\n\s*\n", re.IGNORECASE
)
# `(1, 2)`, `[1; 2]`; `row 1, column 2`, `r1c2`
_CELL_FORMS = (
    re.compile(r"[(\[]\s?(\d{1,2})\s?[,;|]\s?(\d{1,2})\s?[)\]]"),
    re.compile(
        r"\br(?:ow)?[\s_=:]{0,2}(\d{1,2})\W{0,3}(?:and\s)?c(?:ol(?:umn)?)?[\s_=:]{0,2}(\d{1,2})\b",
        re.IGNORECASE,
    ),
)
_TELLS = re.compile(r"\b(?:answer|solution|should be|must be|correct)\b|\\boxed\{", re.IGNORECASE)
_WAY = r"(?:path|route|way|solution)s?"
# `infeasible`, `no valid path`, `not reachable`, `cannot be reached`, `a path does not exist`,
# `answer is N`, or `N` on its own
_NONE = re.compile(
    rf"\b(?:in-?feasible|impossible|unreachable|no\s+(?:\w+\s+){{0,2}}{_WAY}"
    r"|not\s+(?:feasible|possible|reachable)|(?:cannot|can\s?not|can['’]t)\s+(?:be\s+reached|reach)"
    rf"|{_WAY}\s+do(?:es)?(?:\s+not|n['’]t)\s+exist|answer\s+is\s+N)\b|^\s*N\s*$",
    re.IGNORECASE,
)
# `return infeasible if there is no path` repeats the task.
_OPEN_QUESTION = re.compile(
    r"\b(?:if|whether|when|unless|not|never|return|write|isn't)\b", re.IGNORECASE
)


class _Moves(NamedTuple):
    """`text[start:end]` lists these moves (letters of `STEPS`)."""

    start: int
    end: int
    moves: str


def path_candidates(
    text: str, maze: Maze, best: str, attempt: str | None, write: Callable[[str], str]
) -> list[Candidate]:
    """Passages that may give the answer away.

    Args:
        text: the feedback, as a reading.
        maze: the problem's.
        best: moves of a shortest path, or NO_PATH. Only stretches of as many moves can be one.
        attempt: the moves that it is about; to repeat them all is no news.
        write: an answer as the grader reads it.
    """
    text = text[:MAX_TEXT]
    stated = _claims(text) if best == NO_PATH else _paths(text, maze, len(best), attempt)
    return [Candidate(p.start, p.end, f"\\boxed{{{write(p.moves)}}}") for p in stated]


def _claims(text: str) -> Iterator[_Moves]:
    for claim in _NONE.finditer(text):
        if not _OPEN_QUESTION.search(cue_before(text, claim.start())):
            yield _Moves(*claim.span(), NO_PATH)


def _paths(text: str, maze: Maze, length: int, attempt: str | None) -> Iterator[_Moves]:
    backwards = BACKWARDS.search(text) is not None
    for run in _runs(text, _mentions(text)):
        whole = "".join(mention.moves for mention in run)
        names_all = sorted(whole) == sorted(STEPS)  # `right, down, left and up`: which moves exist
        is_alone = text[run[0].start : run[-1].end] == text.strip()
        is_told = is_alone or _TELLS.search(cue_before(text, run[0].start))
        counts = length >= MIN_MOVES or (len(whole) == length and is_told)
        if whole != attempt and not names_all and counts:
            yield from _windows(run, length, backwards)
    for path in _cell_lists(text, maze):
        if len(path.moves) == length and path.moves != attempt:
            yield path


def _mentions(text: str) -> Iterator[_Moves]:
    tokens = list(islice(_TOKEN.finditer(text), MAX_TOKENS))
    has_words = any(token["word"] for token in tokens)
    for token in tokens:
        if token["arrow"] and has_words:
            continue  # arrows between words separate them
        word, letters = (token["word"] or "").lower(), (token["letters"] or "").upper()
        moves = _MOVE_OF_WORD.get(word) or _MOVE_OF_SIGN.get(token["arrow"] or "") or letters
        number = token["before"] or token["factor"] or token["times"] or token["often"] or "1"
        times = _TIMES.get(number.lower()) or int(number)
        # A word of the prose in small letters may be made of r, d, l and u; so may a single letter.
        if letters and token["letters"].islower() and len(moves) < MIN_MOVES:
            continue
        yield _Moves(*token.span(), moves * min(times, MAX_TIMES) if len(moves) == 1 else moves)


def _runs(text: str, mentions: Iterator[_Moves]) -> Iterator[list[_Moves]]:
    """Moves close together."""
    run: list[_Moves] = []
    for mention in mentions:
        gap = text[run[-1].end : mention.start] if run else ""
        if run and (len(gap) > MAX_GAP or _BREAK.search(gap)):
            yield run
            run = []
        run.append(mention)
    if run:
        yield run


def _windows(run: list[_Moves], length: int, backwards: bool) -> Iterator[_Moves]:
    """Stretches of `length` moves, read from their end too where the text says so."""
    for i, first in enumerate(run):
        moves, k = "", i
        while k < len(run) and len(moves) < length:
            moves += run[k].moves
            k += 1
        if len(moves) == length:
            yield _Moves(first.start, run[k - 1].end, moves)
            if backwards:
                # A list from the destination names the path's moves from its end, or the moves of
                # the way back.
                reverse = moves[::-1]
                yield _Moves(first.start, run[k - 1].end, reverse)
                back = "".join(_BACK[move] for move in reverse)
                yield _Moves(first.start, run[k - 1].end, back)


def _cell_lists(text: str, maze: Maze) -> Iterator[_Moves]:
    """Lists of cells as moves from the start; cells may be counted from 0 or 1 or named x first."""
    for form in _CELL_FORMS:
        run: list[re.Match[str]] = []
        for cell in form.finditer(text):
            if run and (cell.start() - run[-1].end() > MAX_GAP or len(run) == MAX_TOKENS):
                yield from _as_moves(run, maze)
                run = []
            run.append(cell)
        yield from _as_moves(run, maze)


def _as_moves(run: list[re.Match[str]], maze: Maze) -> Iterator[_Moves]:
    if len(run) < MIN_CELLS:
        return
    pairs = [(int(cell[1]), int(cell[2])) for cell in run]
    for cells in (pairs, [(b, a) for a, b in pairs]):
        for way in (cells, cells[::-1]):
            # Two cells that are no neighbours have no move, and end the list as a path.
            steps = [_MOVE_OF_STEP.get((b[0] - a[0], b[1] - a[1]), "") for a, b in pairwise(way)]
            if all(steps):
                moves = "".join(steps)
                yield _Moves(run[0].start(), run[-1].end(), moves)
                for base in (0, 1):  # a list may leave out the start
                    first = way[0][0] - base - maze.start[0], way[0][1] - base - maze.start[1]
                    begun = _MOVE_OF_STEP.get(first, "")
                    yield _Moves(run[0].start(), run[-1].end(), begun + moves)


_MOVE_OF_STEP = {step: move for move, step in STEPS.items()}
