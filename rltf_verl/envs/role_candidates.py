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
    **dict.fromkeys(("truthful", "honest", "truth-teller", "truth-tellers", "the truth", "trusted", "believed"), "T"),
    **dict.fromkeys(("liar", "liars", "lying", "dishonest"), "F"),
    **dict.fromkeys(("lie", "lies"), "V"),
}
"""Role -> its sign; V is a verb, which needs no other word behind a name."""
_SIGNS = {"T": "\ue100", "F": "\ue101", "V": "\ue102"}
_FIRST_NAME, _FILL = 0xE000, "\ue200"
"""Names and roles are looked for once and then stand as private characters, so that all patterns are the same for all
puzzles: compiling them takes longer than a search. The text keeps its length."""
_CHANGE = r"makes?|making|mark|label|change|switch|swap|set|turn"
_LINK = re.compile(
    rf"\b(?:is|are|be|as|being|become|tells?|must|should|always|never|{_CHANGE})\b|['’]s\b|n['’]t\b|[:=→|(–—]|->|\s-\s",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"\b(?:sa(?:y|ys|id|ying)|claim\w*|told|stat(?:ed?|es|ing|ements?)|remark\w*|according|words|declared|heard|put|"
    r"expressed|asserted|mentioned|commented|noted|you|your|yours|whether|example|or|would|could|may|might|consider|"
    r"(?<!by )cases?(?!\s+by\b)|try(?!\s+this\s*:))\b",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(r"\b(?:if|suppos\w+|assum\w+|were|when|imagine|let|unless)\b", re.IGNORECASE)
_ASKED = re.compile(r"[^.;!\n]{0,80}\?")
_TELLS = re.compile(
    r"\b(?:must|should|actually|really|in fact|correct\w*|ha(?:s|ve) to|needs? to|solution|reference|so|hence|"
    r"therefore|thus|since|because)\b",
    re.IGNORECASE,
)
_ONLY = re.compile(r"\bonly\b", re.IGNORECASE)
_EXCEPT = re.compile(r"\b(?:every(?:one|body)|all)\s+(?:of\s+them\s+)?(?:except|but|apart\s+from)\s+(?:for\s+)?$", re.I)
_NOT = re.compile(r"\b(?:not|never|cannot)\b|n['’]t\b", re.IGNORECASE)
_IMPOSSIBLE = re.compile(r"\b(?:impossible|not\s+possible|rules?\s+out|excluded)\s+(?:for|that)\s+$", re.IGNORECASE)
_NAME = rf"[\ue000-\ue0ff]{_FILL}*"
_ROLE = rf"(?P<role>[\ue100-\ue102]){_FILL}*"
_REST = r"\b(?:(?:all\s+)?(?:the\s+)?(?:others?|rest)|every(?:one|body)\s+else)\b"
_SOME = rf"(?P<names>{_NAME}(?:[^\w\ue000-\ue200]{{1,6}}(?:and\W{{1,3}})?{_NAME}){{0,{MAX_LIST}}}|{_REST})"
_SEVERAL = _SOME.replace("?P<names>", "?:")
_WRONG = r"(?:wrong|incorrect|mistaken|the other way|swapped|flipped|reversed)"
_CLAIMS = (
    re.compile(rf"{_SOME}(?P<link>[^.;!?\n\ue000-\ue200]{{0,40}}?){_ROLE}(?!\s*(?:/|or\b))", re.IGNORECASE),
    re.compile(rf"\b(?P<link>{_CHANGE})\s+{_SOME}(?:\s+(?:to|as|into|be))?\s+(?:an?\s+)?{_ROLE}", re.IGNORECASE),
    re.compile(rf"{_ROLE}(?P<link>[\"']?\s*(?:\w+\s+)?(?:\b(?:is|are|be)\b|:|=)[\W_]{{0,4}}?){_SOME}", re.IGNORECASE),
)
_LETTERED = re.compile(
    rf"(?P<names>{_NAME})[*_`\"]*\s*[:=]\s*(?:(?P<yes>T|1|true)|F|0|false)\b(?!\s*(?:/|or\b))", re.IGNORECASE
)
_IN_ORDER = re.compile(rf"(?:{_ROLE.replace('?P<role>', '?:')}(?:[\s,;/|.-]{{1,4}}(?:and\s+)?(?:an?\s+)?)?)+")
_CALLED_WRONG = re.compile(
    rf"{_SEVERAL}['’]s\s+(?:roles?|labels?)\s+(?:is|was|are|were)\s+{_WRONG}"
    rf"|\b(?:roles?|labels?)\s+(?:of|for|that you gave(?:\s+to)?)\s+{_SEVERAL}\s+(?:is|was|are|were)\s+{_WRONG}"
    rf"|\b(?:flip|swap|switch|reverse|change|misl[ae]bell?ed|misclassified|misjudged)\s+"
    rf"(?:the\s+roles?\s+(?:of|for)\s+)?{_SEVERAL}",
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
    encoded = _encoded(cast, text[:MAX_TEXT])
    claims = sorted(_claims(cast.names, encoded, attempt), key=lambda claim: (claim.start, claim.end))
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


def _claims(names: Sequence[str], text: str, attempt: Roles) -> Iterator[_Claim]:
    for found in (found for pattern in _CLAIMS for found in pattern.finditer(text)):
        link, before = found["link"], cue_before(text, found.start())
        cue = before + link
        reported = _REPORTED.search(cue) and not _TELLS.search(cue)
        supposed = _SUPPOSED.search(cue) or _ASKED.match(text, found.end())
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
            yield _Claim(found.start(), found.end(), dict.fromkeys(_named(names, found["names"]), bool(found["yes"])))
    for found in _IN_ORDER.finditer(text):
        in_order = [c == _SIGNS["T"] for c in found[0] if c in _SIGNS.values()]
        if len(in_order) == len(names):
            yield _Claim(found.start(), found.end(), dict(zip(names, in_order, strict=True)))
    for found in _CALLED_WRONG.finditer(text):  # there are two roles: the one is wrong, so it is the other
        if _SUPPOSED.search(cue_before(text, found.start())) or _ASKED.match(text, found.end()):
            continue
        roles = {name: not attempt[name] for name in _named(names, found[0]) if attempt.get(name) is not None}
        yield _Claim(found.start(), found.end(), roles)


def _named(names: Sequence[str], encoded: str) -> list[str]:
    places = (ord(c) - _FIRST_NAME for c in encoded)
    return [names[place] for place in places if 0 <= place < len(names)]


def _unnamed(names: Sequence[str], before: str) -> list[str]:
    """Whom `the others` are: those whom the sentence has not named."""
    named = _named(names, before)
    return [name for name in names if name not in named] if named else []


def _encoded(cast: Cast, text: str) -> str:
    """The text of the same length with a private character, and as many fillers, for every name and role."""
    signs = {word: _SIGNS[kind] for word, kind in _OTHER_WORDS.items()}
    for truthful in (True, False):
        signs |= {f"{cast.word(truthful)}{ending}": _SIGNS["FT"[truthful]] for ending in ("", "s", "es")}
    signs |= {name.lower(): chr(_FIRST_NAME + i) for i, name in enumerate(cast.names)}
    words = [*(word for word in signs if len(word) > 1), *filter(lambda name: len(name) == 1, cast.names)]
    return _words(tuple(words)).sub(lambda m: signs[m[0].lower()].ljust(len(m[0]), _FILL), text)


@lru_cache(maxsize=256)
def _words(words: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(_word, longest_first))})\b", re.IGNORECASE)


def _word(word: str) -> str:
    """A letter is a name only in upper case, and `A` only where it is not an article."""
    if len(word) > 1:
        return re.escape(word)
    return rf"(?-i:{word}{_NO_ARTICLE if word == 'A' else ''})"
