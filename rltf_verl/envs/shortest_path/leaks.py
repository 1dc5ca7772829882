"""Where a text lists moves, or says that there is no path: what the leak guard grades."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice

from rltf_verl.envs.base import Candidate
from rltf_verl.envs.shortest_path.leaks_parts import Told, cell_paths, told_parts
from rltf_verl.envs.shortest_path.leaks_readings import whole_paths
from rltf_verl.envs.shortest_path.leaks_words import NO_WAY
from rltf_verl.envs.shortest_path.mazes import STEPS, Maze
from rltf_verl.envs.shortest_path.text import NO_PATH, read_path
from rltf_verl.envs.text.number_words import spell_digits
from rltf_verl.envs.text.plain_text import MAX_TEXT
from rltf_verl.envs.text.stated import cue_before

MAX_MOVES = 600
"""Mentions of a direction that are looked at."""
MAX_GAP = 40
MAX_TIMES = 99

_COUNT = (
    r"(?:(?:(?P<before>\d{1,2})(?:\s?[x×])?|(?P<often>once|twice|thrice))[\s-]+"
    r"(?:(?:step|time|cell|move|square)s?\s+)?(?:to\s+the\s+)?)?"
)
_TIMES = (
    r"(?:\s*(?:[x×]\s?(?P<x>\d{1,2})\b|(?:for\s+)?(?P<after>\d{1,2})\s*(?:time|step|cell|move|square)s?\b"
    r"|(?P<twice>twice)\b))?"
)
_MOVE = re.compile(
    rf"(?<!\w){_COUNT}(?P<move>(?i:right|down|left|up|east|south|west|north)(?:wards?|s)?|"
    rf"[RDLU]+|[rdlu]{{2,}}|(?<=`)[rdlu](?=`)|[→➡⇒↓⬇⇓←⬅⇐↑⬆⇑])(?!\w){_TIMES}"
    r"|(?P<run>[→➡⇒↓⬇⇓←⬅⇐↑⬆⇑])|(?<!\w)(?:(?P<letter>[RDLU])(?P<many>\d{1,2})|(?P<much>\d{1,2})(?P<sign>[RDLU]))(?!\w)"
)
_JOIN = re.compile(
    r"(?:[\W_\d]|\b(?:and|then|next|go|going|move|step|once|more|again|finally|lastly|last|followed|by|to|the|first|second|"
    r"third|after|that|another)\b)*",
    re.IGNORECASE,
)
_TELLS = re.compile(
    r"\b(?:answer|solution|should|must|correct|right"
    r" move|only|just|simply|go|move|walk|take|head|proceed|need|try|"
    r"expected|output|reference|hint\s*:|get\s*:|gives|path\s+is|has\s+to\s+be)(?!\w)|\\boxed\{",
    re.IGNORECASE,
)
_LABEL = re.compile(r"(?:\d{1,2}[.)]|[-*])\s*$")
_OWN = re.compile(
    r"\b(?:you (?:went|go|moved?|wrote|said|took|chose|tried)|your|yours|attempt|instead"
    r" of|not|example|e\.g)\b",
    re.IGNORECASE,
)
_WAY = r"(?:path|route|way|solution)s?"
_NONE = re.compile(
    rf"\b(?:in-?feasible|impossible|unreachable|no\s+(?:\w+\s+){{0,2}}{_WAY}|no\s+sequence\s+of\s+moves|nothing\s+leads|"
    r"not\s+(?:feasible|possible|reachable)|(?:cannot|can\s?not|can['’]t)\s+(?:be\s+reached|reach|get\s+to)|"
    r"(?:walled|cut|closed|sealed|fenced)\s+(?:in|off)|enclosed|"
    rf"(?:every|all|any)\s+(?:\w+\s+)?{_WAY}\s+(?:is|are)\s+blocked|"
    rf"do(?:es)?(?:\s+not|n['’]t)\s+exist\s+(?:an?|any)\s+(?:\w+\s+)?{_WAY}|{_WAY}\s+do(?:es)?(?:\s+not|n['’]t)\s+exist|"
    rf"answer\s+is\s+N)\b|{NO_WAY}",
    re.IGNORECASE,
)
_OPEN_QUESTION = re.compile(
    r"\b(?:if|whether|when|unless|not|never|return|write|isn't)\b", re.IGNORECASE
)


_COMPASS = {"east": "right", "south": "down", "west": "left", "north": "up"}


def path_candidates(
    text: str, maze: Maze, best: str, attempt: str | None, write: Callable[[str], str]
) -> list[Candidate]:
    """Passages that may give the answer away.

    Args:
        text: the feedback.
        maze: the problem's.
        best: moves of a shortest path, or NO_PATH. Only stretches of as many moves can be one.
        attempt: the moves that it is about; to repeat them all is no news.
        write: an answer as the grader reads it.
    """
    text = text[:MAX_TEXT]
    if best == NO_PATH:
        return [
            Candidate(one.start, one.end, f"\\boxed{{{write(NO_PATH)}}}") for one in _claims(text)
        ]
    runs = [run for run in _runs(text) if not _names_all_four(run)]
    told = [window for run in runs for window in _windows(text, run, len(best), attempt)]
    told += [cells for cells in cell_paths(text) if len(cells.moves) == len(best)]
    told += whole_paths(text, maze, len(best), attempt or "")
    parts = (
        []
        if told
        else told_parts(text, runs, maze, best, "" if attempt in (None, NO_PATH) else str(attempt))
    )
    return [
        Candidate(one.start, one.end, f"\\boxed{{{write(one.moves)}}}", part)
        for some, part in ((told, False), (parts, True))
        for one in some
    ]


def _names_all_four(run: list[Told]) -> bool:
    """`right, down, left and up` says which moves there are."""
    return sorted("".join(one.moves for one in run)) == sorted(STEPS)


def _claims(text: str) -> Iterator[Told]:
    for said in _NONE.finditer(text):
        if not _OPEN_QUESTION.search(cue_before(text, said.start())):
            yield Told(said.start(), said.end(), NO_PATH)


def _runs(text: str) -> Iterator[list[Told]]:
    """Mentions of directions with hardly anything between them."""
    run: list[Told] = []
    for one in islice(_mentions(text), MAX_MOVES):
        gap = text[run[-1].end : one.start] if run else ""
        if run and (len(gap) > MAX_GAP or not _JOIN.fullmatch(gap)):
            yield _without_separators(text, run)
            run = []
        run.append(one)
    yield _without_separators(text, run)


def _without_separators(text: str, run: list[Told]) -> list[Told]:
    """Arrows between words are no moves."""
    words = [one for one in run if text[one.end - 1].isalnum()]
    return words or run


def _mentions(text: str) -> Iterator[Told]:
    for found in _MOVE.finditer(spell_digits(text)):
        word = re.sub(
            "(?:wards?|s)$", "", found["move"] or found["run"] or found["letter"] or found["sign"]
        )
        moves = read_path(_COMPASS.get(word.lower(), word))
        times = {"once": 1, "twice": 2, "thrice": 3}.get(
            (found["often"] or found["twice"] or "").lower()
        )
        number = found["before"] or found["x"] or found["after"] or found["many"] or found["much"]
        if moves and moves != NO_PATH:
            yield Told(
                found.start(), found.end(), moves * min(times or int(number or 1), MAX_TIMES)
            )


def _windows(text: str, run: list[Told], length: int, attempt: str | None) -> Iterator[Told]:
    """Stretches of a run that have `length` moves."""
    if "".join(one.moves for one in run) == attempt:
        return
    for i, first in enumerate(run):
        moves, k = "", i
        while k < len(run) and len(moves) < length:
            moves += run[k].moves
            k += 1
        if len(moves) == length and (length > 1 or _is_told(text, first)):
            yield Told(first.start, run[k - 1].end, moves)


def _is_told(text: str, one: Told) -> bool:
    """A single direction is the answer only where it is given as one: the word is used for many
    things.
    """
    around = text[: one.start] + text[one.end :]
    label = _LABEL.search(text, max(0, one.start - 6), one.start)
    cue = cue_before(text, label.start() if label else one.start)
    line = text[text.rfind("\n", 0, one.start) + 1 : one.start] + text[one.end :].partition("\n")[0]
    alone = not any(c.isalnum() for c in around) or not any(c.isalpha() for c in line)
    return alone or bool(_TELLS.search(cue) and not _OWN.search(cue))
