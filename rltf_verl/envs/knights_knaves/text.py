r"""Read who is what, as someone wrote it down.

Understood: `Emma is a knight, Noah is a knave`, `Emma: knight`, `Emma and Mia are knights`,
`Knights: Emma, Mia`, JSON, tables and bullets, inside `\text{}` or not, in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rltf_verl.texts import split_words

ROLE_WORDS = frozenset(
    split_words(
        "knight knave pioneer laggard saint sinner hero villain angel devil altruist egoist sage "
        "fool"
    )
)
# The puzzle's own words override these: the rest are roles of other puzzles.
_FOREIGN = ROLE_WORDS | {f"{word}s" for word in ROLE_WORDS} | {"heroes"}
_WORD = re.compile(r"[^\W\d_]+|[.;]")
_CLAUSE_END = re.compile(r"[.;\n]")
_UNCLEAR = frozenset(
    split_words(
        "not no non or nor neither either if unless isn aren cannot never maybe said says say "
        "claimed claims claim told stated"
    )
)
_NOBODY = frozenset(("none", "nobody", "noone"))

Roles = dict[str, bool | None]
"""Name -> whether that person tells the truth; None for a role that the puzzle does not have."""


@dataclass(frozen=True, slots=True)
class Cast:
    """People of a puzzle, and words for their roles."""

    names: Sequence[str]
    roles: Sequence[str]
    """Names of truth-tellers and liars, with an article: `an angel`, `a devil`."""

    def word(self, truthful: bool) -> str:
        """The role without its article."""
        return self.roles[0 if truthful else 1].split()[-1]

    def say(self, name: str, truthful: bool) -> str:
        """`Emma is a knight`."""
        return f"{name} is {self.roles[0 if truthful else 1]}"

    def tokens(self, text: str) -> list[tuple[str, bool | None]]:
        """The words of a text that matter here: names, `("", role)`, `("!", None)` for what makes
        it unclear, `("-", None)` for nobody and `(".", None)` for the end of a statement."""
        known = self._words()
        return [known[word] for word in _WORD.findall(text.lower()) if word in known]

    def _words(self) -> dict[str, tuple[str, bool | None]]:
        known = dict(_FIXED)
        for truthful in (True, False):
            word = self.word(truthful)
            known |= {word: ("", truthful), f"{word}s": ("", truthful), f"{word}es": ("", truthful)}
        return known | {name.lower(): (name, None) for name in self.names}


_FIXED: dict[str, tuple[str, bool | None]] = {
    **dict.fromkeys(_FOREIGN, ("", None)),
    **dict.fromkeys(_UNCLEAR, ("!", None)),
    **dict.fromkeys(_NOBODY, ("-", None)),
    **dict.fromkeys(".;", (".", None)),
}


def read_roles(cast: Cast, text: str) -> Roles | None:
    """Roles according to all of `text`; None if it does not say, or not clearly. Some people may be
    missing.
    """
    # All at once first: a list of names and roles may go over several lines.
    whole = _assign(cast.tokens(text))
    if whole is not None:
        return whole or None
    roles: Roles = {}
    for clause in _CLAUSE_END.split(text):
        part = _assign(cast.tokens(clause))
        if part is None or not _merge(roles, part.items()):
            return None
    return roles or None


def find_roles(cast: Cast, text: str) -> Roles | None:
    """The same of a text without a box, which ends with the answer: its last lines that name
    everyone.
    """
    for part in _endings(text, len(cast.names)):
        roles = read_roles(cast, part)
        if roles is not None and len(roles) == len(cast.names):
            return roles
    return None


def read_release_roles(text: str) -> set[tuple[str, str]]:
    """(name, role) pairs by the release's rules: a role belongs to the last word before it that it
    does not skip.
    """
    plain = re.sub(r"[.,()]", " ", text.lower().strip()).replace(" and ", " ")
    pairs: set[tuple[str, str]] = set()
    name = ""
    for word in plain.split():
        if word in ROLE_WORDS:
            pairs |= {(name, word)} if name else set()
            name = ""
        elif word not in ("is", "a", "an"):
            name = word
    return pairs


def _endings(text: str, num_people: int) -> Iterator[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    yield from lines[-1:]
    yield "\n".join(lines[-num_people:])
    yield "\n".join(lines[-num_people - 2 :])
    yield text


def _assign(tokens: Sequence[tuple[str, bool | None]]) -> Roles | None:
    """Roles behind the names they belong to, or in front of them if a role comes first.

    A name does not wait for a role beyond the end of its statement: `so is Mia. Noah is a knave`.
    After a role names may have lines of their own.
    """
    if any(name == "!" for name, _ in tokens):
        return None
    # The first token that is no end of a statement; a role has the name "".
    role_first = next((name for name, _ in tokens if name != "."), ".") == ""
    roles: Roles = {}
    waiting: list[str] = []
    for name, role in reversed(tokens) if role_first else tokens:
        if name == ".":
            if waiting and not role_first:
                return None
        elif name:
            waiting.append(name)
        elif not waiting or not _merge(
            roles, ((person, role) for person in waiting if person != "-")
        ):
            return None
        else:
            waiting = []
    return None if waiting else roles


def _merge(roles: Roles, more: Iterable[tuple[str, bool | None]]) -> bool:
    """Add roles; False if someone has another one already."""
    return all(roles.setdefault(name, role) == role for name, role in more)
