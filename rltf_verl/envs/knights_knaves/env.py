r"""Who tells the truth and who lies, from what they say about each other (reasoning-gym's puzzle,
as RLTF uses it).

`mode="official"` repeats the release's 20 000 items and its grader exactly; that grader wants the
form of the example in the question and takes `\boxed{\text{…}}`, colons or further words for a
wrong answer. `mode="strict"` (default) grades what a human would, keeps puzzles apart that differ
in names and order only, and draws every choice of roles equally often.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from rltf_verl.envs.base import (
    COMPACT_TEMPLATES,
    INCORRECT,
    Candidate,
    FeedbackLevel,
    verdict,
)
from rltf_verl.envs.knights_knaves.feedback import diagnosis, marks
from rltf_verl.envs.knights_knaves.leaks import role_candidates
from rltf_verl.envs.knights_knaves.logic import MAX_PEOPLE, formula, letters, read_letters
from rltf_verl.envs.knights_knaves.puzzles import (
    RolePuzzle,
    Shape,
    release_puzzles,
    strict_puzzles,
    words,
)
from rltf_verl.envs.knights_knaves.text import (
    Cast,
    Roles,
    find_roles,
    read_release_roles,
    read_roles,
)
from rltf_verl.envs.puzzle import Mode, Puzzle, Style
from rltf_verl.envs.text.boxed import last_box, released_box
from rltf_verl.kinds import Within
from rltf_verl.types import Grade, Problem

SUFFIX = " Let's think step by step and output the final answer within \\boxed{}."


class KnightsKnaves(Puzzle):
    """The environment `knights_knaves`.

    `Problem.data` holds `names`, `roles` (what who tells the truth is called, and who lies),
    `statements` (see `logic`), `solution` (True: tells the truth), `solution_text` and `quiz`.

    Args:
        mode: `official` or `strict` items and grading, see the module.
        n_people: how many, 2 to 10: every choice of roles is tried.
        depth: how deep statements are nested, at least 2: in a puzzle of plain ones all roles can
            be swapped.
        width: most parts of an `and` or `or`; at least 2, and not more than there are different
            simplest statements.
        style: `official` wording, or `compact` for small character-level models (`strict` only):
            lines like `A:B&c`, where `B` means that B tells the truth and `c` that C lies; answers
            are `AbC`.

    Raises:
        ValueError: an option has a value it cannot have; names the config key.
    """

    name = "knights_knaves"

    def __init__(
        self,
        mode: Mode = "strict",
        n_people: Annotated[int, Within(2, MAX_PEOPLE)] = 5,
        depth: Annotated[int, Within(2, 9)] = 3,
        width: Annotated[int, Within(2, 2 * MAX_PEOPLE - 1)] = 3,
        style: Style = "official",
    ) -> None:
        if width > 2 * n_people - 1:
            raise ValueError(
                f"rltf.env.width={width}: must be in [2, {2 * n_people - 1}] for {n_people} people"
            )
        super().__init__(mode, style)
        self.revise_templates = COMPACT_TEMPLATES if self._compact else {}
        if self._official and self._compact:
            raise ValueError(
                "rltf.env.style='compact' has no form that rltf.env.mode='official' can grade: set"
                " strict"
            )
        self._shape = Shape(n_people, depth, width)

    def prompt(self, problem: Problem) -> str:
        """The user message of the first turn. `compact` is what each of them says, one line
        each.
        """
        quiz = str(problem.data["quiz"])
        return quiz if self._compact else quiz + SUFFIX

    def grade(self, problem: Problem, text: str) -> Grade:
        r"""Grade the boxed roles; `strict` takes the end of the text if there is no `\boxed{}`."""
        if self._official:
            return _grade_official(problem.data["solution_text"], text)
        roles = self._read(problem, text)
        if roles is None:
            return Grade(correct=False, format_ok=False)
        return Grade(
            correct=roles == _solution(problem), format_ok=True, parsed=self._write(problem, roles)
        )

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """Say whose statement is the first that does not fit (`location`), and how (`hint`), or the
        solution (`full`).

        Every message is one line. Levels below `full` name no one's role. `compact` marks every
        person: `=` the statement fits, `x` it does not (`location`); `<` someone who tells the
        truth says something false, `>` a liar something true (`hint`); `?` no readable answer.
        `full` is the answer.
        """
        if grade.correct or level == "verdict":
            marked = grade.correct and self._compact and level != "verdict"
            return "=" if marked else verdict(grade)
        roles, hint = self._read(problem, text), level != "location"
        statements = problem.data["statements"]
        if self._compact and level == "full":
            return letters(problem.data["solution"])
        if self._compact:
            given = None if roles is None else [bool(role) for role in roles.values()]
            return marks(statements, given, hint)
        answer = f" The solution is: {problem.data['solution_text']}" if level == "full" else ""
        return f"{INCORRECT} {diagnosis(_cast(problem), statements, roles, hint)}{answer}"

    def candidates(self, problem: Problem, text: str, attempt: str) -> Sequence[Candidate]:
        """Roles that a text says people have, for the leak guard."""
        cast, given = _cast(problem), self._read(problem, attempt) or {}
        coded = _in_letters_candidates(problem, text) if self._compact else []
        write = partial(self._write, problem)
        return [*coded, *role_candidates(cast, problem.data["solution"], text, given, write)]

    def _read(self, problem: Problem, text: str) -> Roles | None:
        cast, box = _cast(problem), last_box(text)
        if self._compact:
            return _read_compact(
                cast.names, text.rstrip().rpartition("\n")[2] if box is None else box
            )
        if not self._official:
            return find_roles(cast, text) if box is None else read_roles(cast, box)
        box = released_box(text)
        return None if box is None else read_roles(cast, box)

    def _write(self, problem: Problem, roles: Roles) -> str:
        if self._compact:
            return letters([bool(role) for role in roles.values()])
        cast = _cast(problem)
        return ", ".join(
            f"{name} is a ?" if role is None else cast.say(name, role)
            for name, role in roles.items()
        )

    def _release_items(self, seed: int, num: int) -> list[dict[str, Any]]:
        return release_puzzles(seed, num, self._shape)

    def _strict_items(
        self, rng: random.Random, num: int, taken: set[str], *, distinct: bool
    ) -> list[dict[str, Any]]:
        puzzles = strict_puzzles(rng, num, self._shape, taken, distinct)
        return [_in_letters(puzzle) for puzzle in puzzles] if self._compact else words(rng, puzzles)

    def _problem(self, index: int, item: dict[str, Any]) -> Problem:
        data = json.loads(json.dumps(item))  # lists for tuples: as the data comes back from a file
        return Problem(self.name, index, data, data["solution_text"])


def _in_letters(puzzle: RolePuzzle) -> dict[str, Any]:
    names = letters([True] * len(puzzle.solution))
    return {
        "names": list(names),
        "roles": ["a knight", "a knave"],
        "statements": puzzle.statements,
        "solution": puzzle.solution,
        "solution_text": letters(puzzle.solution),
        "quiz": "\n".join(
            f"{name}:{formula(statement)}"
            for name, statement in zip(names, puzzle.statements, strict=True)
        ),
    }


def _cast(problem: Problem) -> Cast:
    return Cast(problem.data["names"], problem.data["roles"])


def _solution(problem: Problem) -> Roles:
    return dict(zip(problem.data["names"], problem.data["solution"], strict=True))


def _grade_official(solution_text: str, text: str) -> Grade:
    boxed = released_box(text)
    if boxed is None:
        return Grade(correct=False, format_ok=False)
    return Grade(
        correct=read_release_roles(boxed) == read_release_roles(solution_text),
        format_ok=True,
        parsed=boxed,
    )


def _read_compact(names: Sequence[str], text: str) -> Roles | None:
    given = read_letters(text, len(names))
    return None if given is None else dict(zip(names, given, strict=True))


def _in_letters_candidates(problem: Problem, text: str) -> list[Candidate]:
    """`AbC`, also with something else than letters and digits in between."""
    num = len(problem.data["names"])
    # A lookahead takes no text, so stretches may overlap; `[^\W_]` is a letter or a digit.
    coded = re.compile(rf"(?<![^\W_])(?=([A-Za-z](?:[\W_]{{0,3}}[A-Za-z]){{{num - 1}}})(?![^\W_]))")
    spans = (match.span(1) for match in coded.finditer(text))
    return [
        Candidate(*span, text[slice(*span)])
        for span in spans
        if read_letters(text[slice(*span)], num) is not None
    ]
