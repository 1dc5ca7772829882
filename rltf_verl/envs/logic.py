"""Statements of knights and knaves: whether they hold, who can be what, and when two puzzles are the same.

A statement is a nested sequence, as reasoning-gym samples it and as JSON keeps it: `("telling-truth", person)`,
`("lying", person)`, `("not", x)`, `("and", x, y, …)`, `("or", x, y, …)`, `("->", x, y)`, `("<=>", x, y)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

Statement = Sequence[Any]
Roles = Sequence[bool]
"""[num_people] True for who tells the truth."""

_FLIPPED = {"telling-truth": "lying", "lying": "telling-truth"}
_LETTERS = "ABCDEFGHIJ"
_SIGNS = {"and": "&", "or": "|", "->": ">", "<=>": "="}
MAX_PEOPLE = len(_LETTERS)


def holds(statement: Statement, roles: Roles) -> bool:
    """Whether a statement is true when people are what `roles` says."""
    kind = statement[0]
    if kind == "telling-truth":
        return roles[statement[1]]
    if kind == "lying":
        return not roles[statement[1]]
    if kind == "not":
        return not holds(statement[1], roles)
    if kind == "and":
        return all(holds(part, roles) for part in statement[1:])
    if kind == "or":
        return any(holds(part, roles) for part in statement[1:])
    first, second = holds(statement[1], roles), holds(statement[2], roles)
    return first == second if kind == "<=>" else second or not first


def contradictions(statements: Sequence[Statement], roles: Roles) -> list[int]:
    """Who says what they cannot say: truth-tellers something false, liars something true."""
    return [i for i, statement in enumerate(statements) if holds(statement, roles) != roles[i]]


def only_solution(statements: Sequence[Statement]) -> tuple[bool, ...] | None:
    """The roles that contradict no statement, if there is exactly one such choice."""
    found: tuple[bool, ...] | None = None
    for roles in product((True, False), repeat=len(statements)):
        if all(holds(statement, roles) == roles[i] for i, statement in enumerate(statements)):
            if found is not None:
                return None
            found = roles
    return found


def same_puzzle_key(statements: Sequence[Statement]) -> str:
    """Equal for puzzles that differ in who is who, in the order of speakers or in the order inside `and`, `or`, `<=>`.

    A few others are equal as well: who is meant by "another" is not looked at. So it keeps more apart than it has to.
    """
    return repr(sorted(repr(_shape(statement, speaker)) for speaker, statement in enumerate(statements)))


def _shape(statement: Statement, speaker: int) -> tuple[Any, ...]:
    kind = statement[0]
    if kind in _FLIPPED:
        return kind, statement[1] == speaker
    if kind == "not" and statement[1][0] in _FLIPPED:  # the same words: "Emma is a knave"
        return _FLIPPED[statement[1][0]], statement[1][1] == speaker
    parts: Iterable[tuple[Any, ...]] = (_shape(part, speaker) for part in statement[1:])
    return kind, *(parts if kind == "->" else sorted(parts, key=repr))


def letters(roles: Roles) -> str:
    """`AbC`: the first and the third person tell the truth, the second lies."""
    return "".join(_letter(i, truthful) for i, truthful in enumerate(roles))


def formula(statement: Statement) -> str:
    """A statement in signs: `A` is truthful, `a` lies, `!` not, `&` and, `|` or, `>` if-then, `=` if and only if."""
    kind = statement[0]
    if kind in _FLIPPED:
        return _letter(statement[1], kind == "telling-truth")
    if kind == "not" and statement[1][0] in _FLIPPED:
        return _letter(statement[1][1], statement[1][0] == "lying")
    parts = [part if len(part) == 1 else f"({part})" for part in map(formula, statement[1:])]
    return f"!{parts[0]}" if kind == "not" else _SIGNS[kind].join(parts)


def read_letters(text: str, num: int) -> list[bool] | None:
    """What `letters` wrote, in any order; None if not everyone is named exactly once."""
    named = [c for c in text if c.isalnum()]
    if not text.isascii() or sorted(c.upper() for c in named) != list(_LETTERS[:num]):
        return None
    return [c.isupper() for c in sorted(named, key=str.upper)]


def _letter(person: int, truthful: bool) -> str:
    return _LETTERS[person] if truthful else _LETTERS[person].lower()
