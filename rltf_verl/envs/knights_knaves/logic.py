"""Statements of knights and knaves: whether they hold, who can be what, and when two puzzles are
the same.

A statement is a nested sequence, as reasoning-gym samples it and as JSON keeps it:
`("telling-truth", person)`, `("lying", person)`, `("not", x)`, `("and", x, y, …)`,
`("or", x, y, …)`, `("->", x, y)`, `("<=>", x, y)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import islice
from operator import and_, or_
from typing import Any

Statement = Sequence[Any]
Roles = Sequence[bool]
"""[num_people] True for who tells the truth."""

_FLIPPED = {"telling-truth": "lying", "lying": "telling-truth"}
_LETTERS = "ABCDEFGHIJ"
_SIGNS = {"and": "&", "or": "|", "->": ">", "<=>": "="}
MAX_PEOPLE = len(_LETTERS)


def holds(statement: Statement, roles: Roles) -> bool:
    """True if a statement is true when people are what `roles` says."""
    return _worlds(statement, roles, 1) == 1


def _worlds(statement: Statement, truthful: Sequence[int], every: int) -> int:
    """The worlds in which a statement is true, one bit each.

    Args:
        statement: what is said.
        truthful: for each person the worlds in which they tell the truth.
        every: all worlds.
    """
    kind = statement[0]
    if kind == "telling-truth":
        return truthful[statement[1]]
    if kind == "lying":
        return every ^ truthful[statement[1]]
    first, *others = (_worlds(part, truthful, every) for part in statement[1:])
    if kind == "not":
        return every ^ first
    if kind == "->":
        # `^` binds tighter than `|`: not the first, or the second.
        return every ^ first | others[0]
    if kind == "<=>":
        return every ^ first ^ others[0]
    return reduce(and_ if kind == "and" else or_, others, first)


def contradictions(statements: Sequence[Statement], roles: Roles) -> list[int]:
    """People who say what they cannot say: truth-tellers something false, liars something true."""
    return [i for i, statement in enumerate(statements) if holds(statement, roles) != roles[i]]


def only_solution(statements: Sequence[Statement]) -> tuple[bool, ...] | None:
    """The roles that contradict no statement, if there is exactly one such choice."""
    num = len(statements)
    every = (1 << 2**num) - 1
    # World w is the one in which person i tells the truth if bit i of w is set.
    # Blocks of 2^(i+1) bits with the upper half set; of four worlds 1010 for person 0, 1100 for 1.
    truthful = [every // ((1 << 2 ** (i + 1)) - 1) * ((1 << 2**i) - 1) << 2**i for i in range(num)]
    # All 2^num worlds at once, a bit each: ten people are one number of 1024 bits.
    left = every
    for person, statement in zip(truthful, statements, strict=True):
        # The worlds in which a person tells the truth just when the statement is true.
        left &= every ^ person ^ _worlds(statement, truthful, every)
    if left.bit_count() != 1:
        return None
    world = left.bit_length() - 1
    return tuple(bool(world >> i & 1) for i in range(num))


def same_puzzle_key(statements: Sequence[Statement]) -> str:
    """Equal for puzzles that differ in who is who, in the order of speakers or in the order inside
    `and`, `or`, `<=>`.

    A few others are equal as well: who is meant by "another" is not looked at. So it keeps more
    apart than it has to.
    """
    return repr(
        sorted(repr(_shape(statement, speaker)) for speaker, statement in enumerate(statements))
    )


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
    """A statement in signs: `A` is truthful, `a` lies, `!` not, `&` and, `|` or, `>` if-then, `=`
    if and only if.
    """
    kind = statement[0]
    if kind in _FLIPPED:
        return _letter(statement[1], kind == "telling-truth")
    if kind == "not" and statement[1][0] in _FLIPPED:
        return _letter(statement[1][1], statement[1][0] == "lying")
    parts = [part if len(part) == 1 else f"({part})" for part in map(formula, statement[1:])]
    return f"!{parts[0]}" if kind == "not" else _SIGNS[kind].join(parts)


def read_letters(text: str, num: int) -> list[bool] | None:
    """Read what `letters` wrote, in any order; None if not everyone is named exactly once."""
    # One more than can be right: a long text costs no more than that.
    named = list(islice(filter(str.isalnum, text), num + 1))
    if not text.isascii() or sorted(c.upper() for c in named) != list(_LETTERS[:num]):
        return None
    return [c.isupper() for c in sorted(named, key=str.upper)]


def _letter(person: int, truthful: bool) -> str:
    return _LETTERS[person] if truthful else _LETTERS[person].lower()
