"""Everyone's role at once, however a text lists them: in order, in tables and code, by groups and
exceptions.

Reads the text of `role_candidates`, in which names and roles are private characters. What is read
counts only if it is the whole solution, so that the puzzle's sentences and wrong attempts, which
share its words, do no harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rltf_verl.envs.knights_knaves.leaks_words import NOT, NOT_ANYWHERE
from rltf_verl.envs.text.encodings import BACKWARDS

TRUTHFUL, LYING, LIES, FILL = "\ue100", "\ue101", "\ue102", "\ue200"
"""Roles as private characters, and what fills up the rest of a word."""
FIRST_NAME = 0xE000
MAX_TOKENS = 400
"""Names and roles that are looked at."""


class Assignment(NamedTuple):
    """`text[start:end]` says this of everyone, in the order of the cast."""

    start: int
    end: int
    roles: tuple[bool, ...]


class _Token(NamedTuple):
    start: int
    end: int
    name: int
    """Index in the cast; -1: it is a role, -2: the others."""
    role: bool


_YES = "true|yes|1|t|y|ja|oui|si|sim|wahr|vrai|verdadero|vero|да|truth|✓|✔|✅|☑|👍"
_NO = "false|no|0|f|n|nein|non|nao|falsch|faux|falso|нет|lie|✗|✘|❌|☒|✖|×|👎"
_REST = (
    r"(?:all\s+)?(?:the\s+)?(?:others?|rest|remaining\s+\w+)|every(?:one|body)\s+else|every\s+other\s+\w+|"
    r"(?:die\s+)?anderen|ubrigen|les\s+autres|los\s+demas|gli\s+altri|os\s+outros|остальные|其他人?|其余"
)
_STRONG = (
    rf"(?P<name>[\ue000-\ue0ff])|(?P<yes>{TRUTHFUL})|(?P<no>[{LYING}{LIES}])|\b(?P<rest>{_REST})\b"
)
_STRONG_TOKEN = re.compile(_STRONG, re.IGNORECASE)
_TOKEN = re.compile(
    rf"{_STRONG}|(?<![\w\ue000-\ue200])(?:(?P<yes2>{_YES})|(?P<no2>{_NO}))(?![\w\ue000-\ue200])",
    re.I,
)
_IN_A_ROW = (
    (r"(?<![\w])[01]{NUM}(?![\w])", "1"),
    (r"(?<![\w])[TF]{NUM}(?![\w])", "T"),
    (r"(?<![\w])[TL]{NUM}(?![\w])", "T"),
    (r"(?<![\w])[YN]{NUM}(?![\w])", "Y"),
    (r"(?<![\w])[+-]{NUM}(?![\w])", "+"),
)
_BETWEEN = re.compile(
    r"(?:[^\w\ue000-\ue200]|\b(?:and|then|und|et|y|e|is|an?|the|next|first|second|third|fourth|fifth|last|finally|a)\b){0,9}",
    re.IGNORECASE,
)
_KEY = re.compile(r"[\"']?\s{0,3}[:=]\s{0,3}[\"']?")
_NOT_TOLD = re.compile(
    r"\b(?:sa(?:y|ys|id|ying)|claim\w*|told|stat(?:ed?|es|ements?)|remark\w*|according|noted|if|suppos\w*|assum\w*|when|"
    r"would|whether|either|or)\b|\w['’]s\s",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"[^.!?\n]+")
_NOT = re.compile(rf"\b(?:{NOT})\b|{NOT_ANYWHERE}", re.IGNORECASE)
_SKIPPED = re.compile(r"\b(?:you(?!\s+can\s+trust)|your|yours|could|might)\b|\?", re.IGNORECASE)
_EXCEPT = re.compile(
    r"\b(?:except|but|apart\s+from|aside\s+from|other\s+than|save|besides|excluding|bar(?:ring)?|with\s+the\s+exception|auss?er|"
    r"sauf|excepto|salvo|menos|tranne|behalve|oprocz|кроме)\b|除了",
    re.IGNORECASE,
)
_NOBODY = re.compile(
    r"\b(?:nobody|no\s?-?one|none|niemand|personne|nadie|nessuno|ninguem|никто)\b", re.IGNORECASE
)
_ALONE = re.compile(
    r"\b(?:only|alone|just|solely|sole|exactly|nur|allein|seul\w*|solo|solamente|unic\w+|soltanto|so|apenas|alleen|tylko|"
    r"только|nobody\s+else|no\s?-?one\s+else|none\s+else|and\s+no\s+others?)\b|只有|だけ",
    re.IGNORECASE,
)
_GROUP = re.compile(
    r"\b(?:group|set|camp|team|side|list|class|consists?|comprises?|namely|i\.?e|two|three|four|five|2|3|4|5)\b|[:={(]",
    re.IGNORECASE,
)


def assignments(text: str, num: int) -> Iterator[Assignment]:
    """Every reading of the encoded text that gives each of `num` people a role."""
    paired = (one for one in _paired(text, num) if not _NOT_TOLD.search(text, one.start, one.end))
    backwards = BACKWARDS.search(text) is not None
    for found in (*_in_order(text, num), *paired):
        yield found
        if backwards:
            yield found._replace(roles=found.roles[::-1])
    yield from _by_groups(text, num)


def _tokens(text: str, pattern: re.Pattern[str]) -> list[_Token]:
    found: list[_Token] = []
    for token in pattern.finditer(text):
        groups = token.groupdict()
        name = ord(token["name"]) - FIRST_NAME if token["name"] else -2 if token["rest"] else -1
        end = token.end()
        while end < len(text) and text[end] == FILL:
            end += 1
        role = bool(token["yes"] or groups.get("yes2"))
        keyed = (
            name == -1
            and "yes2" in groups
            and (groups["yes2"] or groups["no2"])
            and found
            and found[-1].name == -1
        )
        if keyed and _KEY.fullmatch(text, found[-1].end, token.start()):  # `"truthful": false`
            found[-1] = _Token(found[-1].start, end, name, found[-1].role == role)
            continue
        found.append(_Token(token.start(), end, name, role))
        if len(found) == MAX_TOKENS:
            break
    return found


def _in_order(text: str, num: int) -> Iterator[Assignment]:
    """Roles in the order of the question: `10110`, `T F T`, ticks and crosses."""
    for pattern, yes in _IN_A_ROW:
        for found in re.finditer(pattern.replace("NUM", str(num)), text):
            yield Assignment(*found.span(), tuple(c == yes for c in found[0]))
    run: list[_Token] = []
    for token in (*_tokens(text, _TOKEN), None):
        if run and (
            token is None
            or token.name != -1
            or not _BETWEEN.fullmatch(text, run[-1].end, token.start)
        ):
            if len(run) == num:
                yield Assignment(run[0].start, run[-1].end, tuple(one.role for one in run))
            run = []
        if token is not None and token.name == -1:
            run.append(token)


def _paired(text: str, num: int) -> Iterator[Assignment]:
    """Each name with its role behind or in front of it, or all names and then all roles."""
    for tokens in (_tokens(text, _TOKEN), _tokens(text, _STRONG_TOKEN)):
        for i in range(len(tokens) - 2 * num + 1):
            window = tokens[i : i + 2 * num]
            kinds = [token.name >= 0 for token in window]
            for names, roles in _PAIRINGS:
                if all(kinds[names(num)]) and not any(kinds[roles(num)]):
                    yield from _zipped(text, window[names(num)], window[roles(num)], num)


_PAIRINGS = (
    (lambda num: slice(0, None, 2), lambda num: slice(1, None, 2)),
    (lambda num: slice(1, None, 2), lambda num: slice(0, None, 2)),
    (lambda num: slice(None, num), lambda num: slice(num, None)),
    (lambda num: slice(num, None), lambda num: slice(None, num)),
)
"""Where in a window of tokens the names are, and where the roles."""


def _zipped(
    text: str, names: Sequence[_Token], roles: Sequence[_Token], num: int
) -> Iterator[Assignment]:
    said = {
        name.name: (
            role.role
            != (name.end <= role.start < name.end + 40 and _is_negated(text, name.end, role.start))
        )
        for name, role in zip(names, roles, strict=True)
    }
    if len(said) == num and not any(role.name == -2 for role in roles):
        start = min(names[0].start, roles[0].start)
        yield Assignment(
            start, max(names[-1].end, roles[-1].end), tuple(said[i] for i in range(num))
        )


def _is_negated(text: str, start: int, end: int) -> bool:
    return _NOT.search(text, start, end) is not None


def _by_groups(text: str, num: int) -> Iterator[Assignment]:
    sentences = [
        (found.start(), found.end(), _tokens(found[0], _STRONG_TOKEN))
        for found in _SENTENCE.finditer(text)
        if not _SKIPPED.search(text, *found.span()) and not _NOT_TOLD.search(text, *found.span())
    ]
    told = [(start, end, tokens) for start, end, tokens in sentences if tokens][:MAX_TOKENS]
    for i, (start, end, tokens) in enumerate(told):
        roles = _exclusive(text[start:end], tokens, num)
        if roles is not None:
            yield Assignment(start, end, roles)
        some: list[_Token] = []
        for _, last, more in told[i : i + num]:
            some += more
            roles = _listed(text, some, num)
            if roles is not None:
                yield Assignment(start, last, roles)


def _exclusive(sentence: str, tokens: Sequence[_Token], num: int) -> tuple[bool, ...] | None:
    """A sentence about one role: who alone has it, or who alone has not."""
    names, kinds = {t.name for t in tokens if t.name >= 0}, {t.role for t in tokens if t.name == -1}
    if not names or len(kinds) != 1 or len(names) == num:
        return None
    role = kinds.pop()
    apart, nobody = bool(_EXCEPT.search(sentence)), bool(_NOBODY.search(sentence))
    if apart:
        role = role if nobody else not role
    elif not (nobody or _ALONE.search(sentence) or _GROUP.search(sentence)):
        return None
    return tuple((i in names) == role for i in range(num))


def _listed(text: str, tokens: Sequence[_Token], num: int) -> tuple[bool, ...] | None:
    """`A and B are knights, the others knaves`, `Knights: A, B. Knaves: C`."""
    if not tokens or len(tokens) > 4 * num:
        return None
    ordered = list(tokens if tokens[0].name != -1 else reversed(tokens))
    said: dict[int, bool] = {}
    waiting: list[int] = []
    for token in ordered:
        if token.name != -1:
            waiting.append(token.name)
            continue
        for name in waiting:
            if said.setdefault(name, token.role) != token.role:
                return None
        waiting = []
    rest = said.pop(-2, None)
    if rest is not None:
        said = {**dict.fromkeys(range(num), rest), **said}
    return tuple(said[i] for i in range(num)) if len(said) == num and not waiting else None
