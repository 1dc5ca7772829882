"""Finds where a text states a role, for the leak guard to grade."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rltf_verl.envs.base import Candidate
from rltf_verl.envs.knights_knaves.text import Cast, Roles
from rltf_verl.envs.text.plain_text import BACKWARDS, MAX_TEXT, cue_before

MAX_LIST = 9
"""Names that follow the first in `Emma, Noah and Mia`."""

# Names and roles are looked for once and then become private characters, so that all patterns are
# the same for all puzzles: compiling them takes longer than a search. The text keeps its length.
TRUTHFUL, LYING, LIES, FILL = "\ue100", "\ue101", "\ue102", "\ue200"
"""Roles, and what fills up the rest of a word."""
FIRST_NAME = 0xE000

_WORDS = {
    TRUTHFUL: (
        "truthful|honest|truth[- ]?tellers?|the truth|trusted|believed|truthfully|honestly|sincere"
        "|trustworthy|you can trust|truth-telling"
    ),
    LYING: (
        "liars?|lying|dishonest|deceivers?|untruthful|fibbers?|deceitful|falsehoods"
        "|not to be trusted"
    ),
    LIES: "lies?|deceives|fibs|is lying|are lying",
}
# Links of a name to a role: `Emma is a knight`, `Emma: knight`, `Emma’s a knave`, `Emma → knave`.
_LINK = re.compile(
    r"\b(?:is|are|be|as|being|become|tells?|sp(?:eak|oke)s?|must|should|always|never|among|makes?|mark|label|count)\b|['’]s\b|n['’]t\b|"
    r"[:=→|(–—&\t]|->|\s-\s",
    re.IGNORECASE,
)
# `Emma says that Noah is a knave`, `your answer`, `or`, `may`: no statement of the text's own. `you
# can`, `by cases` and `try this:` may come before one.
_REPORTED = re.compile(
    r"\b(?:sa(?:y|ys|id|ying)|claim\w*|told|stat(?:ed?|es|ing|ements?)|remark\w*|according|words|declared|heard|put|"
    r"expressed|asserted|mentioned|commented|noted|you(?! can)|your|yours|whether|example|or|would|"
    r"could|may|might|consider|(?<!by )cases?(?!\s+by\b)|try(?!\s+this\s*:))\b",
    re.IGNORECASE,
)
# `if Emma is a knight`, `were Emma a knight`
_SUPPOSED = re.compile(r"\b(?:if|suppos\w+|assum\w+|were|when|imagine|let|unless)\b", re.IGNORECASE)
# `two of the`, right before the claim: it does not say which.
_SOME_OF = re.compile(
    r"\b(?:one|two|three|\d|some|any|which|none|most|n?either)\s+of\s+(?:the\s+)?$", re.IGNORECASE
)
# The rest of the sentence is a question.
_ASKED = re.compile(r"[^.;!\n]{0,80}\?")
# These make a report a statement: `since Emma said so, she must be a knave`.
_TELLS = re.compile(
    r"\b(?:must|should|actually|really|in fact|correct\w*|ha(?:s|ve) to|needs?"
    r" to|solution|reference|so|hence|"
    r"therefore|thus|since|because)\b",
    re.IGNORECASE,
)
_NOT = re.compile(r"\b(?:not|never|cannot|no|isn|aren|neither|nor)\b|n['’]t\b", re.IGNORECASE)
_NAME = rf"[\ue000-\ue0ff]{FILL}*"
_ROLE = rf"(?P<role>[\ue100-\ue102]){FILL}*"
_REST = r"\b(?:(?:all\s+)?(?:the\s+)?(?:others?|rest)|every(?:one|body)\s+else)\b"
_GAP = r"[^\w\ue000-\ue200]"
_AND = r"and|&|plus|as\s+well\s+as|along\s+with|together\s+with"
# `, Noah`, ` and Noah`, `, and Noah`
_LISTED = rf"{_GAP}{{1,6}}(?:(?:{_AND}){_GAP}{{1,3}})?{_NAME}"
_SOME = rf"(?P<names>{_NAME}(?:{_LISTED}){{0,{MAX_LIST}}}|{_REST})"
_SEVERAL = _SOME.replace("?P<names>", "?:")
_WRONG = r"(?:wrong|incorrect|mistaken|the other way|swapped|flipped|reversed)"
# `Emma and Noah are knights`; `the knights are Emma and Noah`
_CLAIMS = (
    re.compile(
        rf"{_SOME}(?P<link>[^.;!?\n\ue000-\ue200]{{0,40}}?){_ROLE}(?!{FILL}|\s*(?:/|or\b))",
        re.IGNORECASE,
    ),
    re.compile(
        rf"{_ROLE}(?P<link>[\"',]?\s*(?:\w+\s+)?(?:\b(?:is|are|be|namely|consists?\s+of)\b|:|=)[\W_]{{0,4}}?){_SOME}",
        re.IGNORECASE,
    ),
)
_LETTERED = re.compile(
    rf"{_NAME}[*_`\"')]*(?:\s*[:=(|&]\s*|,)(?:(?P<yes>T\b|1\b|true\b|yes\b|[✓✔✅])"
    r"|F\b|0\b|false\b|no\b|[✗✘❌])(?!\s*(?:/|or\b))"
    rf"|\bwhat\s+{_NAME}\s+says?\s+is\s+(?:(?P<true>true)|false)\b",
    re.IGNORECASE,
)
"""`Emma: T`, `| Emma | yes |`, `Emma,no`, `what Emma says is true`."""
_IN_ORDER = re.compile(
    rf"(?:{_ROLE.replace('?P<role>', '?:')}(?:[\s,;/|.-]{{1,4}}(?:and\s+)?(?:an?\s+)?)?)+"
    r"|(?<![\w.])(?:[01](?:[\s,]{0,2}[01]){1,9}|[TF](?:[\s,]{0,2}[TF]){1,9}|[TL](?:[\s,]{0,2}[TL]){1,9})(?!\w|\.\d)"
)
"""`knight, knave, knight`, `101`, `T F T`."""
# `Emma's role is wrong`; `the label of Emma is wrong`; `swap Emma`; `you have Emma wrong`; `wrong
# about Emma`; `right except for Emma`
_CALLED_WRONG = re.compile(
    rf"{_SEVERAL}['’]s\s+(?:roles?|labels?)\s+(?:is|was|are|were)\s+{_WRONG}"
    r"|\b(?:roles?|labels?)\s+(?:of|for|that you"
    rf" gave(?:\s+to)?)\s+{_SEVERAL}\s+(?:is|was|are|were)\s+{_WRONG}"
    rf"|\b(?:flip|swap|switch|reverse|change|misl[ae]bell?ed|misclassified|misjudged)\s+"
    rf"(?:the\s+roles?\s+(?:of|for)\s+)?{_SEVERAL}"
    rf"|\b(?:got|have|had|put|placed)\s+{_SEVERAL}\s+(?:\w+\s+){{0,2}}{_WRONG}"
    rf"|\b(?:wrong|mistaken|incorrect)\s+about\s+{_SEVERAL}(?!['’])"
    rf"|\b(?:right|correct)\s+(?:but|except|apart\s+from)\s+(?:for\s+)?{_SEVERAL}(?!['’])",
    re.IGNORECASE,
)
# An `A` before one of these words is a name; before any other word it is an article.
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
    """Passages that may give away someone's role.

    The text does not state what the puzzle's people say, what follows from an `if`, or what the
    answer had.

    Args:
        cast: names and what the roles are called.
        solution: what everyone is.
        text: the feedback, as a reading.
        attempt: roles of the answer that it is about; those that it had right are no news.
        write: an answer as the grader reads it.
    """

    def answer(roles: Mapping[str, bool]) -> str:
        return f"\\boxed{{{write({name: roles[name] for name in cast.names})}}}"

    right = dict(zip(cast.names, solution, strict=True))
    encoded = _encoded(cast, text[:MAX_TEXT].replace("_", " "))
    claims = sorted(_claims(cast.names, encoded, attempt), key=lambda claim: claim[:2])
    candidates = []
    for claim in claims:
        for name, role in claim.roles.items():
            if attempt.get(name) is not role:
                part = answer({**right, name: role})
                candidates.append(Candidate(claim.start, claim.end, part, part=True))
    stated = {name: role for claim in claims for name, role in claim.roles.items()}
    if len(stated) == len(right):
        end = max(claim.end for claim in claims)
        candidates.append(Candidate(claims[0].start, end, answer(stated)))
    for start, end, roles in _in_order(encoded, len(cast.names)):
        in_order = dict(zip(cast.names, roles, strict=True))
        candidates.append(Candidate(start, end, answer(in_order)))
    return candidates


def _claims(names: Sequence[str], text: str, attempt: Roles) -> Iterator[_Claim]:
    for claim in (claim for pattern in _CLAIMS for claim in pattern.finditer(text)):
        yield _Claim(*claim.span(), _claimed(names, text, claim))
    for claim in _LETTERED.finditer(text):
        before = cue_before(text, claim.start())
        if not _SUPPOSED.search(before) and not _REPORTED.search(before):
            named = _named(names, claim[0])
            yield _Claim(*claim.span(), dict.fromkeys(named, bool(claim["yes"] or claim["true"])))
    for claim in _CALLED_WRONG.finditer(text):
        if _SUPPOSED.search(cue_before(text, claim.start())) or _ASKED.match(text, claim.end()):
            continue
        # There are two roles: one is wrong, so it is the other.
        wrong = [name for name in _named(names, claim[0]) if attempt.get(name) is not None]
        yield _Claim(*claim.span(), {name: not attempt[name] for name in wrong})


def _claimed(names: Sequence[str], text: str, claim: re.Match[str]) -> dict[str, bool]:
    """The roles that a match of `_CLAIMS` states; none if it reports, supposes or asks them."""
    link, before = claim["link"], cue_before(text, claim.start())
    cue = before + link
    if _REPORTED.search(cue) and not _TELLS.search(cue):
        return {}
    if _SOME_OF.search(before) or _SUPPOSED.search(cue) or _ASKED.match(text, claim.end()):
        return {}
    # `Emma lies` needs no link: the role is a verb.
    if claim["role"] != LIES and not _LINK.search(link):
        return {}
    # A negation swaps the two roles: `is not a liar`.
    role = (claim["role"] == TRUTHFUL) != bool(_NOT.search(link))
    named = _named(names, claim["names"]) or _unnamed(names, before)
    counted = re.search(r"(\d) $", before)  # "the 2 knights are Emma and Noah"
    if counted is not None and int(counted[1]) == len(named):
        return {name: (name in named) == role for name in names}
    return dict.fromkeys(named, role)


def _in_order(text: str, num: int) -> Iterator[tuple[int, int, list[bool]]]:
    """Roles in the order of the question, or from its end where the text says so."""
    backwards = BACKWARDS.search(text) is not None
    for run in _IN_ORDER.finditer(text):
        roles = [
            c in (TRUTHFUL, "1", "T") for c in run[0] if c in (TRUTHFUL, LYING, LIES, *"01TFL")
        ]
        if len(roles) == num:
            yield *run.span(), roles
            if backwards:
                yield *run.span(), roles[::-1]


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
    text = _role_words(cast.word(True), cast.word(False)).sub(_as_sign, text)
    signs = {name.lower(): chr(FIRST_NAME + i) for i, name in enumerate(cast.names)}
    return _name_words(tuple(cast.names)).sub(
        lambda name: signs[name[0].lower()].ljust(len(name[0]), FILL), text
    )


def _as_sign(word: re.Match[str]) -> str:
    return _SIGN_OF_GROUP[word.lastgroup or ""].ljust(len(word[0]), FILL)


_SIGN_OF_GROUP = {"truthful": TRUTHFUL, "lying": LYING, "lies": LIES}


@lru_cache(maxsize=64)
def _role_words(truthful: str, lying: str) -> re.Pattern[str]:
    """The words for the two roles. `is lying` must be tried before `lying`."""
    return re.compile(
        rf"(?<![^\W_])(?:(?P<lies>{_WORDS[LIES]})|(?P<lying>{lying}(?:s|es)?|{_WORDS[LYING]})"
        rf"|(?P<truthful>{truthful}(?:s|es)?|{_WORDS[TRUTHFUL]}))(?![^\W_])",
        re.IGNORECASE,
    )


@lru_cache(maxsize=256)
def _name_words(names: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(names, key=len, reverse=True)
    # Plain edges: a set of all letters takes 15 ms to compile, and every puzzle has other names.
    return re.compile(
        rf"(?<![A-Za-z0-9])(?i:{'|'.join(map(_name_word, longest_first))})(?![A-Za-z0-9])"
    )


def _name_word(name: str) -> str:
    """A letter is a name only in upper case, and `A` only where it is not an article."""
    if len(name) > 1:
        return re.escape(name)
    return rf"(?-i:{name}{_NO_ARTICLE if name == 'A' else ''})"
