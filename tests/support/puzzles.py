"""What the tests of the puzzles share."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from rltf_verl.envs.base import LEVELS
from rltf_verl.envs.shortest_path.env import ShortestPath
from rltf_verl.envs.shortest_path.mazes import Maze
from rltf_verl.types import Problem


def boxed(answer: str) -> str:
    return f"\\boxed{{{answer}}}"


def explained(env: Any, problem: Problem, text: str) -> list[str]:
    """What is said about the text at each level."""
    return [env.explain(problem, text, env.grade(problem, text), level) for level in LEVELS]


def maze_problem(rows: str) -> Problem:
    """Of `shortest_path`, from rows with a / between them, as strict mode would make it."""
    grid = [list(row) for row in rows.split("/")]
    place = {cell: (r, c) for r, row in enumerate(grid) for c, cell in enumerate(row)}
    return ShortestPath()._problem(0, Maze(grid, place["*"], place["#"]))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_of(problems: Sequence[Problem], keys: Sequence[str]) -> str:
    items = [{key: problem.data[key] for key in keys} for problem in problems]
    return sha256(json.dumps(items, sort_keys=True, ensure_ascii=False))
