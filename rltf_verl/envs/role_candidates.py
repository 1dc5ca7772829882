"""Where a text says what someone is: what the leak guard grades."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rltf_verl.envs.base import Candidate
from rltf_verl.envs.role_text import Cast, Roles, find_roles
from rltf_verl.envs.stated import cue_before

MAX_TEXT = 20_000
"""Characters that are looked at."""
MAX_LIST = 9
"""Names that follow the first in `Emma, Noah and Mia`."""

_OTHER_WORDS = {
    **dict.fromkeys(("truthful", "honest", "truth-teller", "truth-tellers", "the truth", "trusted", "believed"), True),
    **dict.fromkeys(("liar", "liars", "lies", "lie", "lying", "dishonest"), False),
}
_VERBS = ("lie", "lies")
"""Roles that need no other word behind a name."""
_CHANGE = r"makes?|making|mark|label|change|switch|swap|set|turn"
_LINK = re.compile(
    rf"\b(?:is|are|be|as|being|become|tells?|must|should|always|never|{_CHANGE})\b|['’]s\b|n['’]t\b|[:=→|(–—]|->|\s-\s",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?:sa(?:y|ys|id|ying)|claim\w*|told|stat(?:ed?|es|ing|ements?)|remark\w*|according|words|declared|heard|put|"
    r"expressed|asserted|mentioned|commented|noted|you|your|yours|whether|example|or|would|could|may|might|consider|"
    r"(?:in\s+)?cases?\s+(?:that|where|in\s+which|of)|(?:both|other|this|one)\s+cases?|try(?!\s+this\s*:))\b",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(r"\b(?:if|suppos\w+|assum\w+|were|when|imagine|let|unless)\b", re.IGNORECASE)
_ASKED = re.compile(r"[^.;!\n]{0,80}\?")
_TELLS = re.compile(
    r"\b(?:must|should|actually|really|in fact|correct\w*|ha(?:s|ve) to|needs? to|solution|so|hence|therefore|thus|"
    r"since|because)\b",
    re.IGNORECASE,
)
_ONLY = re.compile(r"\bonly\b", re.IGNORECASE)
_EXCEPT = re.compile(r"\b(?:every(?:one|body)|all)\s+(?:of\s+them\s+)?(?:except|but|apart\s+from)\s+(?:for\s+)?$", re.I)
_NOT = re.compile(r"\b(?:not|never|cannot)\b|n['’]t\b", re.IGNORECASE)
_IMPOSSIBLE = re.compile(r"\b(?:impossible|not\s+possible|rules?\s+out|excluded)\s+(?:for|that)\s+$", re.IGNORECASE)
_REST = r"\b(?:(?:all\s+)?(?:the\s+)?(?:others?|rest)|every(?:one|body)\s+else)\b"
_NO_ARTICLE = (
    r"\b(?!\s+(?!(?:is|are|and|as|be|being|has|have|must|should|can|cannot|does|tells?|lies?|never|always|to|turns)\b)"
    r"[a-z])"
)


class _Claim(NamedTuple):
    start: int
    end: int
    roles: dict[str, bool]


class _Patterns(NamedTuple):
    role: Mapping[str, bool]
    names: Mapping[str, str]
    """Lower case -> as it is written."""
    name: re.Pattern[str]
    claims: tuple[re.Pattern[str], ...]
    wrong: re.Pattern[str]


def role_candidates(
    cast: Cast, solution: Sequence[bool], text: str, attempt: Roles, write: Callable[[Roles], str]
) -> list[Candidate]:
    """Passages that may give away someone's role, or everyone's.

    What the puzzle's people say, what follows from an `if` and what the answer had said is not what the text says.

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
    patterns = _patterns(tuple(cast.names), tuple(cast.roles))
    claims = sorted(_claims(patterns, text[:MAX_TEXT], attempt), key=lambda claim: (claim.start, claim.end))
    found = []
    for claim in claims:
        news = {name: role for name, role in claim.roles.items() if attempt.get(name) is not role}
        for name, role in news.items():
            found.append(Candidate(claim.start, claim.end, answer({**right, name: role}), part=True))
    told = {name: role for claim in claims for name, role in claim.roles.items()}
    if len(told) == len(right):
        found.append(Candidate(claims[0].start, max(claim.end for claim in claims), answer(told)))
    listed = find_roles(cast, text)
    if listed is not None and None not in listed.values():
        found.append(Candidate(0, len(text), answer({name: bool(role) for name, role in listed.items()})))
    return found


def _claims(patterns: _Patterns, text: str, attempt: Roles) -> Iterator[_Claim]:
    for found in (found for pattern in patterns.claims for found in pattern.finditer(text)):
        link = found["link"]
        cue = cue_before(text, found.start()) + link
        reported = _REPORTED.search(cue) and not _TELLS.search(cue)
        supposed = _SUPPOSED.search(cue) or _ASKED.match(text, found.end())
        linked = found["role"].lower() in _VERBS or _LINK.search(link)
        if linked and not reported and not supposed:
            negated = bool(_NOT.search(link)) != bool(_IMPOSSIBLE.search(cue_before(text, found.start())))
            role = patterns.role[found["role"].lower()] != negated
            named = _named(patterns, found["names"]) or _unnamed(patterns, text, found.start())
            roles = dict.fromkeys(named, role)
            if _EXCEPT.search(cue_before(text, found.start())):
                roles = {name: (name in named) != role for name in patterns.names.values()}
            elif _ONLY.search(cue):
                roles = {name: (name in named) == role for name in patterns.names.values()}
            yield _Claim(found.start(), found.end(), roles)
    for found in patterns.wrong.finditer(text):  # there are two roles: the one is wrong, so it is the other
        if _SUPPOSED.search(cue_before(text, found.start())) or _ASKED.match(text, found.end()):
            continue
        roles = {name: not attempt[name] for name in _named(patterns, found[0]) if attempt.get(name) is not None}
        yield _Claim(found.start(), found.end(), roles)


def _unnamed(patterns: _Patterns, text: str, end: int) -> list[str]:
    """Whom `the others` are: those whom the sentence has not named."""
    named = _named(patterns, cue_before(text, end))
    return [name for name in patterns.names.values() if name not in named] if named else []


def _named(patterns: _Patterns, names: str) -> list[str]:
    return [patterns.names[found[0].lower()] for found in patterns.name.finditer(names)]


def _name(name: str) -> str:
    """A letter is a name only in upper case, and `A` only where it is not an article."""
    if len(name) > 1:
        return re.escape(name)
    return rf"(?-i:{name}{_NO_ARTICLE if name == 'A' else ''})"


@lru_cache(maxsize=256)
def _patterns(names: tuple[str, ...], roles: tuple[str, ...]) -> _Patterns:
    cast = Cast(names, roles)
    role_of = dict(_OTHER_WORDS)
    for truthful in (True, False):
        role_of |= {f"{cast.word(truthful)}{ending}": truthful for ending in ("", "s", "es")}
    name = rf"\b(?:{'|'.join(map(_name, names))})\b"
    role = rf"\b(?P<role>{'|'.join(sorted(map(re.escape, role_of), key=len, reverse=True))})\b"
    some = rf"(?P<names>{name}(?:[\W_]{{1,6}}(?:and[\W_]{{1,3}})?{name}){{0,{MAX_LIST}}}|{_REST})"
    several = some.replace("?P<names>", "?:")
    apart = rf"(?:(?!{name}|{role.replace('?P<role>', '?:')})[^.;!?\n])"
    wrong = r"(?:wrong|incorrect|mistaken|the other way|swapped|flipped|reversed)"
    return _Patterns(
        role_of,
        {one.lower(): one for one in names},
        re.compile(name, re.IGNORECASE),
        (
            re.compile(rf"{some}(?P<link>{apart}{{0,40}}?){role}(?!\s*(?:/|or\b))", re.IGNORECASE),
            re.compile(
                rf"\b(?P<link>{_CHANGE})\s+{some}"
                rf"(?:\s+(?:to|as|into|be))?\s+(?:an?\s+)?{role}",
                re.IGNORECASE,
            ),
            re.compile(rf"{role}(?P<link>[\"']?\s*(?:\w+\s+)?(?:is|are|be|:|=)[\W_]{{0,4}}){some}", re.IGNORECASE),
        ),
        re.compile(
            rf"{several}['’]s\s+(?:roles?|labels?)\s+(?:is|was|are|were)\s+{wrong}"
            rf"|\b(?:roles?|labels?)\s+(?:of|for|that you gave(?:\s+to)?)\s+{several}\s+(?:is|was|are|were)\s+{wrong}"
            rf"|\b(?:flip|swap|switch|reverse|change|misl[ae]bell?ed|misclassified|misjudged)\s+"
            rf"(?:the\s+roles?\s+(?:of|for)\s+)?{several}",
            re.IGNORECASE,
        ),
    )  # fmt: skip
