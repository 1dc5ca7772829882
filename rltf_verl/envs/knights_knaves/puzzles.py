"""Draws puzzles of knights and knaves with one solution. reasoning-gym puts them into words, at
build time only.

A statement of depth d is, with equal chances, something about one person, a negation, `and`, `or`,
`->` or `<=>` of statements of depth d-1; at depth 1 it is about one person. Nobody says "I am
lying".
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltf_verl.envs.knights_knaves.logic import Statement, only_solution, same_puzzle_key

MAX_DRAWS = 100_000
"""Draws that are thrown away in search of one puzzle."""
RELEASE_TRIES = 1000
"""Draws of the release from one seed; if none of them has one solution, it takes the next seed."""
MAX_REPEATS = 1000
"""Puzzles in succession that were drawn before, after which the release gives up."""


@dataclass(frozen=True, slots=True)
class RolePuzzle:
    """Statements of people, and the one choice of roles that fits."""

    statements: tuple[Statement, ...]
    solution: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of puzzles."""

    n_people: int
    depth: int
    width: int
    """Most parts of an `and` or `or`."""


def release_puzzles(seed: int, num: int, shape: Shape) -> list[dict[str, Any]]:
    """The release's problems, as fields of `Problem.data`.

    Every puzzle has a sampler and a formatter of its own, seeded in turns from one `random.Random`;
    a puzzle that was drawn before costs a seed. The order of the draws is the release's: do not
    change it.

    Raises:
        ValueError: there are not so many different puzzles of this shape, or reasoning-gym is
            missing.
    """
    gym, rng = _reasoning_gym(), random.Random(seed)
    problems: list[dict[str, Any]] = []
    seen: set[tuple[Statement, ...]] = set()
    repeats = 0
    while len(problems) < num:
        sampler = gym.KKProblemSampler(
            rng.randint(0, 2**31), shape.n_people, shape.depth, shape.width
        )
        puzzle = next(_with_one_solution(sampler.sample() for _ in range(RELEASE_TRIES)), None)
        if puzzle is None or puzzle.statements in seen:
            repeats += 1
            if repeats >= MAX_REPEATS:
                raise ValueError(
                    f"{_too_few(shape)}: only {len(problems)} of {num} different ones were found"
                )
            continue
        # The count is of repeats in succession, as in the release.
        repeats = 0
        seen.add(puzzle.statements)
        problems.append(_in_words(gym, rng.randint(0, 2**31), puzzle))
    return problems


def strict_puzzles(
    rng: random.Random, num: int, shape: Shape, taken: set[str], distinct: bool
) -> list[RolePuzzle]:
    """Puzzles whose solutions are as often any one choice of roles as another.

    Sampled statements favour truth-tellers: with five people, "all are knights" solves 5 % of the
    puzzles and not 3 %. So the solution is drawn first, then a puzzle with as many truth-tellers,
    and its people are put in their order.

    Args:
        rng: source of all draws.
        num: puzzles.
        shape: their size.
        taken: keys (`same_puzzle_key`) of puzzles that must not be drawn.
        distinct: add what is drawn to `taken`.

    Raises:
        ValueError: there are not so many puzzles of this shape.
    """
    waiting: dict[int, list[RolePuzzle]] = defaultdict(list)
    drawn = []
    for _ in range(num):
        solution = [rng.random() < 0.5 for _ in range(shape.n_people)]
        drawn.append(_reorder(rng, _draw(rng, shape, sum(solution), taken, waiting), solution))
        if distinct:
            taken.add(same_puzzle_key(drawn[-1].statements))
    return drawn


def words(rng: random.Random, puzzles: Sequence[RolePuzzle]) -> list[dict[str, Any]]:
    """Puzzles as fields of `Problem.data`, in reasoning-gym's words. Raises ValueError if it is
    missing.
    """
    gym = _reasoning_gym()
    return [_in_words(gym, rng.randint(0, 2**31), puzzle) for puzzle in puzzles]


def _draw(
    rng: random.Random,
    shape: Shape,
    num_truthful: int,
    taken: set[str],
    waiting: Mapping[int, list[RolePuzzle]],
) -> RolePuzzle:
    for _ in range(MAX_DRAWS):
        if waiting[num_truthful]:
            puzzle = waiting[num_truthful].pop()
        else:
            statements = tuple(
                _statement(rng, person, shape.depth, shape) for person in range(shape.n_people)
            )
            drawn = next(_with_one_solution(iter([statements])), None)
            if drawn is None:
                continue
            puzzle = drawn
        # Not thrown away: a later draw may want as many truth-tellers.
        if sum(puzzle.solution) != num_truthful:
            waiting[sum(puzzle.solution)].append(puzzle)
        elif same_puzzle_key(puzzle.statements) not in taken:
            return puzzle
    raise ValueError(
        f"{_too_few(shape)}: no new one with {num_truthful} truth-tellers in {MAX_DRAWS} draws"
    )


def _statement(rng: random.Random, speaker: int, depth: int, shape: Shape) -> Statement:
    kind = "about" if depth == 1 else rng.choice(("about", "not", "and", "or", "->", "<=>"))
    if kind == "about":
        person = rng.randrange(shape.n_people)
        truthful = person == speaker or rng.random() < 0.5
        return ("telling-truth" if truthful else "lying", person)
    if kind == "not":
        return (kind, _statement(rng, speaker, depth - 1, shape))
    num = rng.randint(2, shape.width) if kind in ("and", "or") else 2
    parts: list[Statement] = []
    # ends: `width` is at most the number of different simplest statements
    while len(parts) < num:
        part = _statement(rng, speaker, depth - 1, shape)
        if part not in parts:
            parts.append(part)
    return (kind, *parts)


def _reorder(rng: random.Random, puzzle: RolePuzzle, solution: Sequence[bool]) -> RolePuzzle:
    """The same puzzle with its people in an order that gives this solution."""
    places = list(range(len(solution)))
    rng.shuffle(places)
    free = {role: [place for place in places if solution[place] == role] for role in (True, False)}
    # person i goes to a free place that has the same role in the new solution
    place_of = [free[role].pop() for role in puzzle.solution]
    moved = {
        place_of[i]: _rename(statement, place_of) for i, statement in enumerate(puzzle.statements)
    }
    return RolePuzzle(tuple(moved[place] for place in range(len(solution))), tuple(solution))


def _rename(statement: Statement, place_of: Sequence[int]) -> Statement:
    if isinstance(statement[1], int):
        return (statement[0], place_of[statement[1]])
    return (statement[0], *(_rename(part, place_of) for part in statement[1:]))


def _with_one_solution(drawn: Iterator[tuple[Statement, ...]]) -> Iterator[RolePuzzle]:
    for statements in drawn:
        solution = only_solution(statements)
        if solution is not None:
            yield RolePuzzle(statements, solution)


def _in_words(gym: Any, seed: int, puzzle: RolePuzzle) -> dict[str, Any]:
    problem = {"statements": puzzle.statements, "solution": puzzle.solution}
    worded = gym.KKProblemFormatter(seed, problem).format_problem()
    return {
        "names": [str(name) for name in worded["names"]],
        "roles": [str(worded["knight_knave"][key]) for key in ("a_knight", "a_knave")],
        "statements": puzzle.statements,
        "solution": list(puzzle.solution),
        "solution_text": worded["solution_text"],
        "quiz": worded["quiz"],
    }


def _reasoning_gym() -> Any:
    try:
        from reasoning_gym.logic import knights_knaves
    except ImportError as error:
        raise ValueError(
            f"knights_knaves needs reasoning-gym ({error}): pip install rltf-verl[data]"
        ) from error
    return knights_knaves


def _too_few(shape: Shape) -> str:
    return (
        f"too few puzzles with rltf.env.n_people={shape.n_people}, rltf.env.depth={shape.depth} and"
        f" rltf.env.width={shape.width}; raise one of them, or ask for fewer problems"
    )
