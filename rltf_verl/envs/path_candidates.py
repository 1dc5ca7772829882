"""Where a text lists moves, or says that there is no path: what the leak guard grades."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from rltf_verl.envs.base import Candidate
from rltf_verl.envs.number_words import spell_digits
from rltf_verl.envs.path_text import NO_PATH, read_path
from rltf_verl.envs.stated import cue_before

MAX_MOVES = 600
"""Mentions of a direction that are looked at."""
MAX_GAP = 40
MAX_TIMES = 99

_COUNT = r"(?:(?P<before>\d{1,2})[\s-]+(?:(?:step|time|cell|move|square)s?\s+)?(?:to\s+the\s+)?)?"
_TIMES = (
    r"(?:\s*(?:[x×]\s?(?P<x>\d{1,2})\b|(?:for\s+)?(?P<after>\d{1,2})\s*(?:time|step|cell|move|square)s?\b"
    r"|(?P<twice>twice)\b))?"
)
_MOVE = re.compile(
    rf"(?<!\w){_COUNT}(?P<move>(?i:right|down|left|up)(?:wards?|s)?|[RDLU]+|[rdlu]{{2,}}|[→➡⇒↓⬇⇓←⬅⇐↑⬆⇑])(?!\w){_TIMES}"
    r"|(?P<run>[→➡⇒↓⬇⇓←⬅⇐↑⬆⇑])"
)
_JOIN = re.compile(
    r"(?:[\W_\d]|\b(?:and|then|next|go|going|move|step|once|more|again|finally|lastly|last|followed|by|to|the|first|second|"
    r"third|after|that|another)\b)*",
    re.IGNORECASE,
)
_TELLS = re.compile(
    r"\b(?:answer|solution|should|must|correct|right move|only|just|simply|go|move|need|try)\b", re.IGNORECASE
)
_OWN = re.compile(
    r"\b(?:you (?:went|go|moved?|wrote|said|took|chose|tried)|your|yours|attempt|instead of|not)\b", re.IGNORECASE
)
_NONE = re.compile(
    r"\b(?:in-?feasible|impossible|unreachable|no\s+(?:\w+\s+){0,2}(?:path|route|way|solution)s?|"
    r"not\s+(?:feasible|possible|reachable)|(?:cannot|can\s?not|can't|can’t)\s+be\s+reached|(?:walled|cut|closed)\s+(?:in|off))\b",
    re.IGNORECASE,
)
_OPEN_QUESTION = re.compile(r"\b(?:if|whether|when|unless|not|never|return|write|isn't)\b", re.IGNORECASE)


class _Told(NamedTuple):
    start: int
    end: int
    moves: str


def path_candidates(text: str, best: str, attempt: str | None, write: Callable[[str], str]) -> list[Candidate]:
    """Passages that may give the answer away.

    Args:
        text: the feedback.
        best: moves of a shortest path, or NO_PATH. Only stretches of as many moves can be one.
        attempt: the moves that it is about; to repeat them all is no news.
        write: an answer as the grader reads it.
    """
    if best == NO_PATH:
        told = _claims(text)
    else:
        told = (window for run in _runs(text) for window in _windows(text, run, len(best), attempt))
    return [Candidate(one.start, one.end, f"\\boxed{{{write(one.moves)}}}") for one in told]


def _claims(text: str) -> Iterator[_Told]:
    for said in _NONE.finditer(text):
        if not _OPEN_QUESTION.search(cue_before(text, said.start())):
            yield _Told(said.start(), said.end(), NO_PATH)


def _runs(text: str) -> Iterator[list[_Told]]:
    """Mentions of directions with hardly anything between them."""
    run: list[_Told] = []
    for one in islice(_mentions(text), MAX_MOVES):
        gap = text[run[-1].end : one.start] if run else ""
        if run and (len(gap) > MAX_GAP or not _JOIN.fullmatch(gap)):
            yield _without_separators(text, run)
            run = []
        run.append(one)
    yield _without_separators(text, run)


def _without_separators(text: str, run: list[_Told]) -> list[_Told]:
    """Arrows between words are no moves."""
    words = [one for one in run if text[one.end - 1].isalnum()]
    return words or run


def _mentions(text: str) -> Iterator[_Told]:
    for found in _MOVE.finditer(spell_digits(text)):
        moves = read_path(re.sub("(?:wards?|s)$", "", found["move"] or found["run"]))
        times = 2 if found["twice"] else int(found["before"] or found["x"] or found["after"] or 1)
        if moves and moves != NO_PATH:
            yield _Told(found.start(), found.end(), moves * min(times, MAX_TIMES))


def _windows(text: str, run: list[_Told], length: int, attempt: str | None) -> Iterator[_Told]:
    """Stretches of a run that have `length` moves."""
    if "".join(one.moves for one in run) == attempt:
        return
    for i, first in enumerate(run):
        moves, k = "", i
        while k < len(run) and len(moves) < length:
            moves += run[k].moves
            k += 1
        if len(moves) == length and (length > 1 or _is_told(text, first)):
            yield _Told(first.start, run[k - 1].end, moves)


def _is_told(text: str, one: _Told) -> bool:
    """A single direction is the answer only where it is given as one: the word is used for many things."""
    around = text[: one.start] + text[one.end :]
    cue = cue_before(text, one.start)
    return not any(c.isalnum() for c in around) or bool(_TELLS.search(cue) and not _OWN.search(cue))
