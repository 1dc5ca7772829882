"""Where a text says what someone is: what the leak guard grades."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rltf_verl.envs.base import Candidate
from rltf_verl.envs.knights_knaves.leaks_readings import (
    FILL,
    FIRST_NAME,
    LIES,
    LYING,
    TRUTHFUL,
    assignments,
)
from rltf_verl.envs.knights_knaves.leaks_words import (
    AND,
    LINKS,
    LINKS_ANYWHERE,
    NOT,
    NOT_ANYWHERE,
    REPORTED,
    REPORTED_ANYWHERE,
    ROLES_ABROAD,
    SUPPOSED,
    SUPPOSED_ANYWHERE,
)
from rltf_verl.envs.knights_knaves.leaks_words import signs as words_of_signs
from rltf_verl.envs.knights_knaves.text import Cast, Roles, find_roles
from rltf_verl.envs.text.stated import cue_before

MAX_TEXT = 20_000
"""Characters that are looked at."""
MAX_LIST = 9
"""Names that follow the first in `Emma, Noah and Mia`."""

_SIGNS = {"T": TRUTHFUL, "F": LYING, "V": LIES}
"""Names and roles are looked for once and then stand as private characters, so that all patterns
are the same for all puzzles: compiling them takes longer than a search. The text keeps its
length."""
_CHANGE = r"makes?|making|mark|label|change|switch|swap|set|turn"
_LINK = re.compile(
    rf"\b(?:is|are|be|as|being|become|tells?|speaks?|must|should|always|never|{LINKS}|{_CHANGE})\b|['’]s\b|n['’]t\b|"
    rf"[:=→|(–—&\t]|->|\s-\s|{LINKS_ANYWHERE}",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?:sa(?:y|ys|id|ying)|claim\w*|told|stat(?:ed?|es|ing|ements?)|remark\w*|according|words|declared|heard|put|"
    r"expressed|asserted|mentioned|commented|noted|you|your|yours|whether|example|or|would|could|may|might|consider|"
    rf"(?<!by )cases?(?!\s+by\b)|try(?!\s+this\s*:)|{REPORTED})\b|{REPORTED_ANYWHERE}",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    rf"\b(?:if|suppos\w+|assum\w+|were|when|imagine|let|unless|{SUPPOSED})\b|{SUPPOSED_ANYWHERE}",
    re.IGNORECASE,
)
_SOME_OF = re.compile(
    r"\b(?:one|two|three|\d|some|any|which|none|most|n?either)\s+of\s+(?:the\s+)?$", re.IGNORECASE
)
_ASKED = re.compile(r"[^.;!\n]{0,80}\?")
_TELLS = re.compile(
    r"\b(?:must|should|actually|really|in fact|correct\w*|ha(?:s|ve) to|needs?"
    r" to|solution|reference|so|hence|"
    r"therefore|thus|since|because)\b",
    re.IGNORECASE,
)
_ONLY = re.compile(r"\bonly\b", re.IGNORECASE)
_EXCEPT = re.compile(
    r"\b(?:every(?:one|body)|all)\s+(?:of\s+them\s+)?(?:except|but|apart\s+from)\s+(?:for\s+)?$",
    re.I,
)
_NOT = re.compile(rf"\b(?:{NOT})\b|{NOT_ANYWHERE}", re.IGNORECASE)
_IMPOSSIBLE = re.compile(
    r"\b(?:impossible|not\s+possible|rules?\s+out|excluded|(?:not|n['’]t)\s+(?:true|the\s+case|right|so)|"
    r"false|untrue|wrong)\s+(?:for|that)\s+$",
    re.IGNORECASE,
)
_NAME = rf"[\ue000-\ue0ff]{FILL}*"
_ROLE = rf"(?P<role>[\ue100-\ue102]){FILL}*"
_REST = r"\b(?:(?:all\s+)?(?:the\s+)?(?:others?|rest)|every(?:one|body)\s+else)\b"
_GAP = r"[^\w\ue000-\ue200]"
_LISTED = rf"{_GAP}{{1,6}}(?:(?:{AND}){_GAP}{{1,3}})?{_NAME}"
_SOME = rf"(?P<names>{_NAME}(?:{_LISTED}){{0,{MAX_LIST}}}|{_REST})"
_SEVERAL = _SOME.replace("?P<names>", "?:")
_WRONG = r"(?:wrong|incorrect|mistaken|the other way|swapped|flipped|reversed)"
_CLAIMS = (
    re.compile(
        rf"{_SOME}(?P<link>[^.;!?\n\ue000-\ue200]{{0,40}}?){_ROLE}(?!{FILL}|\s*(?:/|or\b))",
        re.IGNORECASE,
    ),
    re.compile(
        rf"\b(?P<link>{_CHANGE})\s+{_SOME}(?:\s+(?:to|as|into|be))?\s+(?:an?\s+)?{_ROLE}",
        re.IGNORECASE,
    ),
    re.compile(
        rf"{_ROLE}(?P<link>[\"']?\s*(?:\w+\s+)?(?:\b(?:is|are|be)\b|:|=)[\W_]{{0,4}}?){_SOME}",
        re.IGNORECASE,
    ),
)
_LETTERED = re.compile(
    rf"(?P<names>{_NAME})[*_`\"]*\s*[:=]\s*(?:(?P<yes>T|1|true)|F|0|false)\b(?!\s*(?:/|or\b))",
    re.IGNORECASE,
)
_IN_ORDER = re.compile(
    rf"(?:{_ROLE.replace('?P<role>', '?:')}(?:[\s,;/|.-]{{1,4}}(?:and\s+)?(?:an?\s+)?)?)+"
)
_CALLED_WRONG = re.compile(
    rf"{_SEVERAL}['’]s\s+(?:roles?|labels?)\s+(?:is|was|are|were)\s+{_WRONG}"
    r"|\b(?:roles?|labels?)\s+(?:of|for|that you"
    rf" gave(?:\s+to)?)\s+{_SEVERAL}\s+(?:is|was|are|were)\s+{_WRONG}"
    rf"|\b(?:flip|swap|switch|reverse|change|misl[ae]bell?ed|misclassified|misjudged)\s+"
    rf"(?:the\s+roles?\s+(?:of|for)\s+)?{_SEVERAL}"
    rf"|\b(?:got|have|had|put|placed)\s+{_SEVERAL}\s+(?:\w+\s+){{0,2}}{_WRONG}"
    rf"|\b(?:wrong|mistaken|incorrect)\s+about\s+{_SEVERAL}(?!['’])"
    rf"|\b(?:opposite|contrary)\b[^.!?\n\ue000-\ue0ff]{{0,40}}\b(?:for|of|about|to)\s+{_SEVERAL}(?!['’])"
    rf"|{_SEVERAL}\s+(?:should\s+|must\s+|ha(?:s|ve)\s+to\s+)?(?:change|switch|swap)(?:s|es)?\s+(?:sides?|roles?|camps?)"
    rf"|\b(?:right|correct)\s+(?:but|except|apart\s+from)\s+(?:for\s+)?{_SEVERAL}(?!['’])",
    re.IGNORECASE,
)
_NO_ARTICLE = (
    r"\b(?!\s+(?!(?:is|are|and|as|be|being|has|have|must|should|can|cannot|does|tells?|lies?|never|always|to|turns)\b)"
    r"[a-z])"
)


class _Claim(NamedTuple):
    start: int
    end: int
    roles: dict[str, bool]


def role_candidates(
    cast: Cast, solution: Sequence[bool], text: str, attempt: Roles, write: Callable[[Roles], str]
) -> list[Candidate]:
    """Passages that may give away someone's role, or everyone's.

    What the puzzle's people say, what follows from an `if` and what the answer had said is not what
    the text says.

    Args:
        cast: names and what the roles are called.
        solution: what everyone is.
        text: the feedback.
        attempt: roles of the answer that it is about; those that it had right are no news.
        write: an answer as the grader reads it.
    """

    def answer(roles: Mapping[str, bool]) -> str:
        return f"\\boxed{{{write({name: roles[name] for name in cast.names})}}}"

    right = dict(zip(cast.names, solution, strict=True))
    encoded = _encoded(cast, text[:MAX_TEXT].replace("_", " "))
    claims = sorted(
        _claims(cast.names, encoded, attempt), key=lambda claim: (claim.start, claim.end)
    )
    found = []
    for claim in claims:
        news = {name: role for name, role in claim.roles.items() if attempt.get(name) is not role}
        for name, role in news.items():
            found.append(
                Candidate(claim.start, claim.end, answer({**right, name: role}), part=True)
            )
    told = {name: role for claim in claims for name, role in claim.roles.items()}
    if len(told) == len(right):
        found.append(Candidate(claims[0].start, max(claim.end for claim in claims), answer(told)))
    found += [
        Candidate(whole.start, whole.end, answer(dict(zip(cast.names, whole.roles, strict=True))))
        for whole in assignments(encoded, len(cast.names))
    ]
    listed = find_roles(cast, text)
    if listed is not None and None not in listed.values():
        found.append(
            Candidate(0, len(text), answer({name: bool(role) for name, role in listed.items()}))
        )
    return found


def _claims(names: Sequence[str], text: str, attempt: Roles) -> Iterator[_Claim]:
    for found in (found for pattern in _CLAIMS for found in pattern.finditer(text)):
        link, before = found["link"], cue_before(text, found.start())
        cue = before + link
        reported = _REPORTED.search(cue) and not _TELLS.search(cue)
        supposed = (
            _SOME_OF.search(before) or _SUPPOSED.search(cue) or _ASKED.match(text, found.end())
        )
        linked = found["role"] == _SIGNS["V"] or _LINK.search(link)
        if linked and not reported and not supposed:
            negated = bool(_NOT.search(link)) != bool(_IMPOSSIBLE.search(before))
            role = (found["role"] == _SIGNS["T"]) != negated
            named = _named(names, found["names"]) or _unnamed(names, before)
            roles = dict.fromkeys(named, role)
            if _EXCEPT.search(before):
                roles = {name: (name in named) != role for name in names}
            elif _ONLY.search(cue):
                roles = {name: (name in named) == role for name in names}
            yield _Claim(found.start(), found.end(), roles)
    for found in _LETTERED.finditer(text):
        before = cue_before(text, found.start())
        if not _SUPPOSED.search(before) and not _REPORTED.search(before):
            yield _Claim(
                found.start(),
                found.end(),
                dict.fromkeys(_named(names, found["names"]), bool(found["yes"])),
            )
    for found in _IN_ORDER.finditer(text):
        in_order = [c == _SIGNS["T"] for c in found[0] if c in _SIGNS.values()]
        if len(in_order) == len(names):
            yield _Claim(found.start(), found.end(), dict(zip(names, in_order, strict=True)))
    for found in _CALLED_WRONG.finditer(
        text
    ):  # there are two roles: the one is wrong, so it is the other
        if _SUPPOSED.search(cue_before(text, found.start())) or _ASKED.match(text, found.end()):
            continue
        roles = {
            name: not attempt[name]
            for name in _named(names, found[0])
            if attempt.get(name) is not None
        }
        yield _Claim(found.start(), found.end(), roles)


def _named(names: Sequence[str], encoded: str) -> list[str]:
    places = (ord(c) - FIRST_NAME for c in encoded)
    return [names[place] for place in places if 0 <= place < len(names)]


def _unnamed(names: Sequence[str], before: str) -> list[str]:
    """Whom `the others` are: those whom the sentence has not named."""
    named = _named(names, before)
    return [name for name in names if name not in named] if named else []


def _encoded(cast: Cast, text: str) -> str:
    """The text of the same length with a private character, and as many fillers, for every name and
    role.
    """
    text = _KNOWN.sub(lambda found: _fill(_sign(cast, found[0].lower()), found[0]), text)
    names = {name.lower(): chr(FIRST_NAME + i) for i, name in enumerate(cast.names)}
    return _words(tuple(cast.names)).sub(
        lambda found: _fill(names[found[0].lower()], found[0]), text
    )


def _fill(sign: str | None, word: str) -> str:
    return word if sign is None else sign.ljust(len(word), FILL)


def _sign(cast: Cast, word: str) -> str | None:
    """What a word says: a role, if it is one of this puzzle."""
    for truthful in (True, False):
        if cast.word(truthful) in _ROLES_OF.get(word, ()):
            return _SIGNS["FT"[truthful]]
    kind = _OTHER_WORDS.get(word)
    return None if kind is None else _SIGNS[kind]


def _roles_of() -> dict[str, set[str]]:
    """Word, in whatever language and with an ending -> the roles that it may stand for."""
    roles: dict[str, set[str]] = {}
    for role, abroad in ROLES_ABROAD.items():
        for stem in (role, *abroad.split()):
            for ending in _ENDINGS if stem[0] < _UNSPACED else ("",):
                roles.setdefault(stem + ending, set()).add(role)
    return roles


_UNSPACED = "\u2e80"
"""From here on scripts that set no blanks between words."""
_ENDINGS = ("", "s", "es", "n", "e", "en")
_ROLES_OF, _OTHER_WORDS = _roles_of(), words_of_signs()
_EDGES = rf"(?<![^\W{_UNSPACED}-\uffff])", rf"(?![^\W{_UNSPACED}-\uffff])"


def _known() -> re.Pattern[str]:
    words = sorted({*_ROLES_OF, *_OTHER_WORDS}, key=len, reverse=True)
    spaced = "|".join(re.escape(word) for word in words if word[0] < _UNSPACED)
    unspaced = "|".join(re.escape(word) for word in words if word[0] >= _UNSPACED)
    return re.compile(rf"{_EDGES[0]}(?i:{spaced}){_EDGES[1]}|{unspaced}")


_KNOWN = _known()


@lru_cache(maxsize=256)
def _words(names: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(names, key=len, reverse=True)
    # Plain edges: a set of all letters takes 15 ms to compile, and every puzzle has other names.
    return re.compile(rf"(?<![A-Za-z0-9])(?i:{'|'.join(map(_word, longest_first))})(?![A-Za-z0-9])")


def _word(word: str) -> str:
    """A letter is a name only in upper case, and `A` only where it is not an article."""
    if len(word) > 1:
        return re.escape(word)
    return rf"(?-i:{word}{_NO_ARTICLE if word == 'A' else ''})"
