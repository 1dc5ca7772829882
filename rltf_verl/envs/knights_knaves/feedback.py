"""A program's feedback on wrong roles: statements that do not fit. It names no right role."""

from __future__ import annotations

from collections.abc import Sequence

from rltf_verl.envs.knights_knaves.logic import Statement, contradictions, holds
from rltf_verl.envs.knights_knaves.text import Cast, Roles

NO_ANSWER = "No boxed answer in which people have roles was found."
BAD_FORM = "Every role is right, but write it as in the example of the question, and nothing else."


def diagnosis(cast: Cast, statements: Sequence[Statement], roles: Roles | None, hint: bool) -> str:
    """The fault, in a sentence.

    Args:
        cast: names and what the roles are called.
        statements: what each of them said.
        roles: the answer, None if unreadable.
        hint: say also how the first statement that does not fit contradicts the roles.
    """
    if roles is None:
        return NO_ANSWER
    if None in roles.values():
        return f"The roles of this puzzle are {cast.word(True)} and {cast.word(False)}."
    missing = [name for name in cast.names if name not in roles]
    if missing:
        return f"No role is given for: {', '.join(missing)}."
    given = [bool(roles[name]) for name in cast.names]
    wrong = contradictions(statements, given)
    if not wrong:
        return BAD_FORM
    name = cast.names[wrong[0]]
    if not hint:
        return f"What {name} said does not fit your roles."
    role = cast.roles[0 if given[wrong[0]] else 1]
    return (
        f"With your roles, what {name} said is {'false' if given[wrong[0]] else 'true'}, but you"
        f" call {name} {role}."
    )


def marks(statements: Sequence[Statement], given: Sequence[bool] | None, hint: bool) -> str:
    """The same of everyone in one character each, see `KnightsKnaves.explain`."""
    if given is None:
        return "?"
    signs = {True: "<", False: ">"} if hint else {True: "x", False: "x"}
    text = ""
    for statement, role in zip(statements, given, strict=True):
        text += "=" if holds(statement, given) == role else signs[role]
    return text
