"""A program's feedback on a wrong sequence of moves. Nothing here names a direction."""

from __future__ import annotations

from rltf_verl.envs.shortest_path.mazes import Cell, Maze, walk
from rltf_verl.envs.shortest_path.text import NO_PATH

NO_ANSWER = "No boxed sequence of moves was found."
NUMBERING = "Cells are named (row,column), counted from 1."


def diagnosis(maze: Maze, path: str | None, length: int, hint: bool) -> str:
    """The fault of a path, in a sentence or two.

    Args:
        maze: where.
        path: the moves, NO_PATH, or None for an unreadable answer.
        length: moves of a shortest path, if there is one.
        hint: say also from which cell to which, and how long a path is.
    """
    if path is None:
        return NO_ANSWER
    if path == NO_PATH:
        return f"A path of {_moves(length)} exists." if hint else "A path exists."
    made = walk(maze, path)
    if made.stopped is not None:
        does = "leaves the grid" if made.by == "edge" else "hits an obstacle"
        if not hint:
            return f"Move {made.stopped + 1} {does}."
        return f"Move {made.stopped + 1}, from {_cell(made.end)}, {does}. {NUMBERING}"
    if made.end != maze.dest:
        where = f", which is {_cell(maze.dest)}" if hint else ""
        return f"The moves end at {_cell(made.end)}, not at the destination{where}. {NUMBERING}"
    shorter = f" of {_moves(length)}" if hint else ""
    return f"The moves reach the destination, but a shorter path{shorter} exists."


def marks(maze: Maze, path: str | None, length: int, hint: bool) -> str:
    """The same in a few characters, see `ShortestPath.explain`."""
    if path is None:
        return "?"
    if path == NO_PATH:
        return f"!{length}" if hint else "!"
    made = walk(maze, path)
    if made.stopped is not None:
        hit = "|" if made.by == "edge" else "X"
        return "=" * made.stopped + (hit if hint else "x")
    done = "=" * len(path)
    if made.end != maze.dest:
        return f"{done}?{made.end[0] + 1},{made.end[1] + 1}" if hint else f"{done}?"
    return f"{done}+{len(path) - length}" if hint else f"{done}+"


def _moves(length: int) -> str:
    return "1 move" if length == 1 else f"{length} moves"


def _cell(cell: Cell) -> str:
    return f"({cell[0] + 1},{cell[1] + 1})"
