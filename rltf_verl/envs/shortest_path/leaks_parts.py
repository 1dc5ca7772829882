"""Where a text tells the first moves of a path, or the one that comes next: parts of an answer for
the leak guard.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from rltf_verl.envs.shortest_path.mazes import STEPS, Cell, Grid, Maze, shortest_path, walk
from rltf_verl.envs.text.stated import cue_before


class Told(NamedTuple):
    """`text[start:end]` tells these moves (letters of `STEPS`)."""

    start: int
    end: int
    moves: str


_BEGIN = re.compile(r"\b(?:start|begin|beginning|first)\b[^.!?\n]*$", re.IGNORECASE)
_BEGINS = re.compile(
    r"\s*(?:is|are)\s+(?:how|what)\b[^.!?\n]{0,20}\b(?:begin|start)s?\b", re.IGNORECASE
)
_NUMBERED = re.compile(
    r"\b(?:(?:move|step)\s+(?:number\s+)?(?P<a>\d{1,2})|(?P<b>\d{1,2})(?:st|nd|rd|th)\s+(?:move|step))\b"
    r"[^.!?\n]{0,20}\b(?:should|must|has\s+to|needs?\s+to|be|by)\b[^.!?\n]{0,12}$",
    re.IGNORECASE,
)
_NUMBER_AFTER = re.compile(
    r"[^.!?\n]{0,25}\b(?:at|as|for|in)\s+(?:step|move)\s+(?:number\s+)?(?P<a>\d{1,2})\b",
    re.IGNORECASE,
)
_PLACED = re.compile(
    r"\((\d{1,2}),\s*(\d{1,2})\)[^.!?\n()]{0,30}\b(?:go|move|turn|step|head|is|be)(?:\s+to)?(?:\s+the)?\s+$",
    re.IGNORECASE,
)
_PLACE_AFTER = re.compile(r"\s*(?:at|from)\s+\((\d{1,2}),\s*(\d{1,2})\)", re.IGNORECASE)
_TELLS = re.compile(
    r"\b(?:should|must|ha(?:ve|s)\s+to|needs?\s+to|right|correct|optimal|best|instead|replace|consider|go|move|turn|"
    r"start|begin|beginning|first)\b",
    re.IGNORECASE,
)
_NOT_TOLD = re.compile(
    r"\b(?:you\s+(?:can|cannot|can't|could|go|went|move|moved|chose|took|tried|wrote|begin|began|start|started)|your|not|"
    r"never|if|when|whether|may|might|is\s+it|did)\b",
    re.IGNORECASE,
)
_SHOULD = re.compile(r"\b(?:should|must|has\s+to|needs?\s+to)\b", re.IGNORECASE)


def told_parts(
    text: str, runs: list[list[Told]], maze: Maze, best: str, attempt: str
) -> Iterator[Told]:
    """Moves that shortest paths begin with and the attempt does not, each filled up to such a path.

    Args:
        text: the feedback.
        runs: where it mentions directions.
        maze: the problem's.
        best: a shortest path.
        attempt: the moves that it is about, empty if it has none.
    """
    for run in filter(None, runs):
        first, last = run[0], run[-1]
        cue = cue_before(text, first.start)
        if _NOT_TOLD.search(cue) and not _SHOULD.search(cue):
            continue
        moves = "".join(one.moves for one in run)
        for begun in _beginnings(text, cue, last.end, moves, maze, attempt):
            whole = None if attempt.startswith(begun) else _completed(maze, begun, len(best))
            if whole is not None:
                yield Told(first.start, last.end, whole)


def _beginnings(
    text: str, cue: str, end: int, moves: str, maze: Maze, attempt: str
) -> Iterator[str]:
    """What the path begins with, if the moves are what the words around them say."""
    if _BEGIN.search(cue) or _BEGINS.match(text, end):
        yield moves
    after = _NUMBER_AFTER.match(text, end)
    numbered = _NUMBERED.search(cue) or (
        after if after and (_TELLS.search(cue + after[0]) or not cue.strip()) else None
    )
    if numbered:
        place = int(next(filter(None, numbered.groups()))) - 1
        if 0 <= place <= len(attempt):
            yield attempt[:place] + moves[0]
    placed = _PLACED.search(cue) or (_PLACE_AFTER.match(text, end) if _TELLS.search(cue) else None)
    if placed:
        for base in (0, 1):
            way = _way_to(maze, (int(placed[1]) - base, int(placed[2]) - base), attempt)
            if way is not None:
                yield way + moves[0]


def _way_to(maze: Maze, cell: Cell, attempt: str) -> str | None:
    """How the attempt gets to a cell, or else a shortest way."""
    for num in range(len(attempt) + 1):
        made = walk(maze, attempt[:num])
        if made.stopped is not None:
            break
        if made.end == cell:
            return attempt[:num]
    return (
        None
        if maze.get(*cell) in (None, "X")
        else shortest_path(Maze(_open(maze), maze.start, cell))
    )


def _open(maze: Maze) -> Grid:
    """The grid without its ends: a search passes only through open cells and the destination."""
    return [["X" if cell == "X" else "O" for cell in row] for row in maze.grid]


def _completed(maze: Maze, begun: str, length: int) -> str | None:
    """A shortest path that begins so; None if there is none."""
    made = walk(maze, begun)
    if made.stopped is not None:
        return None
    rest = shortest_path(Maze(_open(maze), made.end, maze.dest))
    return begun + rest if rest is not None and len(begun) + len(rest) == length else None


_MOVE_OF = {step: move for move, step in STEPS.items()}
_CELL = r"[(\[]\s*(\d{1,2})\s*,\s*(\d{1,2})\s*[)\]]"
_CELLS = re.compile(rf"{_CELL}(?:[\s,;→>-]{{0,6}}(?:and|then|to)?\s{{0,2}}{_CELL})+", re.IGNORECASE)


def cell_paths(text: str) -> Iterator[Told]:
    """Lists of neighbouring cells, as moves; from which cell on they are counted makes no
    difference.
    """
    for found in _CELLS.finditer(text):
        cells = [(int(m[1]), int(m[2])) for m in re.finditer(_CELL, found[0])]
        moves = [_MOVE_OF.get((b[0] - a[0], b[1] - a[1]), "") for a, b in pairwise(cells)]
        if len(moves) > 1 and all(moves):  # the start and a destination beside it are no news
            yield Told(found.start(), found.end(), "".join(moves))
