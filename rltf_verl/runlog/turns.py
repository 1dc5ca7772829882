"""One episode of an episode log: what its turns led to. `turns` is the list of a record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rltf_verl.texts import answer_form, without_thoughts

# `Your previous answer is incorrect`, `it was wrong`, `Let's try again`
_EMPTY_TALK = re.compile(
    r"\b(?:your|the|this|that|it)(?:\s+(?:previous|last|first))?(?:\s+(?:answer|attempt|solution|response))?"
    r"\s+(?:is|was)\s+(?:not\s+)?(?:correct|incorrect|wrong|right)\b|\b(?:please|let'?s|now|and)?\s*try\s+(?:it\s+)?again\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")

Record = Mapping[str, Any]


def group_of(record: Record) -> tuple[str, str]:
    """Key of a record's group: the step, and the row or its visit."""
    return str(record["step"]), str(record["uid"])


def graded(turn: Record) -> bool:
    """False where the grader was out of reach: such an attempt is neither right nor wrong."""
    return bool(turn.get("stop") != "ungraded")


def grader_trouble(records: Iterable[Record]) -> tuple[str | None, bool]:
    """One line on the answers whose grader failed, and whether all did; None: it never did."""
    turns = [turn for record in records for turn in record["turns"] if graded(turn)]
    errors = Counter(turn["grade"]["error"] for turn in turns)
    del errors[None]
    if not errors:
        return None, False
    ((common, _),) = errors.most_common(1)
    return (
        f"{errors.total()} of {len(turns)} answers were not graded, and count as wrong: {common}",
        errors.total() == len(turns),
    )


def right(turn: Record) -> bool:
    """The grader accepted it."""
    return graded(turn) and bool(turn["grade"]["correct"])


def wrong(turn: Record) -> bool:
    """The grader rejected it, or found no answer."""
    return graded(turn) and not turn["grade"]["correct"]


def format_ok(turn: Record) -> bool:
    """An answer was found, and the policy ended the text itself."""
    return bool(turn["grade"]["format_ok"] and turn["ended"])


def answer(turn: Record) -> str:
    """The answer as it was graded, else the whole text; white space aside."""
    return answer_form(turn["grade"]["parsed"], turn["text"])


def pairs(turns: Sequence[Record]) -> Iterator[tuple[Record, Record]]:
    """(attempt, revision of it), both graded."""
    return (pair for pair in pairwise(turns) if all(map(graded, pair)))


def fixed(turns: Sequence[Record]) -> bool:
    """A wrong attempt was followed by a right one."""
    return any(wrong(before) and right(after) for before, after in pairs(turns))


def broken(turns: Sequence[Record]) -> bool:
    """A right attempt was followed by a wrong one."""
    return any(right(before) and wrong(after) for before, after in pairs(turns))


def unsolved(turns: Sequence[Record]) -> bool:
    """There are graded attempts, and none is right."""
    return any(map(wrong, turns)) and not any(map(right, turns))


def leaked(turns: Sequence[Record]) -> bool:
    """The leak guard found something, whatever became of the text."""
    texts = (turn.get(kind) for turn in turns for kind in ("feedback", "withheld"))
    return any(bool(text.get("leak")) for text in texts if text)


def withheld(turns: Sequence[Record]) -> bool:
    """A text was kept back."""
    return any(bool(turn.get("withheld")) for turn in turns)


def fell_back(turns: Sequence[Record]) -> bool:
    """A provider failed, and the fixed sentence replaced its feedback."""
    return any(bool(turn["feedback"]) and bool(turn["feedback"]["fallback"]) for turn in turns)


def feedback_failed(turn: Record) -> bool:
    """Feedback was wanted, and none came; on the last turn only a teacher would have read it."""
    ends_so = turn["stop"] == "horizon" and bool(turn.get("error"))
    return ends_so or bool(turn["stop"] == "feedback_unavailable")


def failed(turns: Sequence[Record]) -> bool:
    """A grader or a provider failed."""
    return any(bool(turn["grade"]["error"]) or bool(turn["error"]) for turn in turns)


def not_graded(turns: Sequence[Record]) -> bool:
    """A grader was out of reach."""
    return not all(map(graded, turns))


def verdicts(turns: Sequence[Record]) -> str:
    """✓ right, ✗ wrong, ∅ no answer found, ? not graded, in order."""
    return "".join(map(verdict, turns))


def verdict(turn: Record) -> str:
    """One character, see `verdicts`."""
    if not graded(turn):
        return "?"
    if right(turn):
        return "✓"
    return "✗" if turn["grade"]["format_ok"] else "∅"


def says_nothing(text: str) -> bool:
    """No word is left without the verdict and the call to try again.

    >>> says_nothing("Your previous answer is incorrect. Try again!")
    True
    >>> says_nothing("It was wrong in row 2.")
    False
    """
    return not re.search(r"\w", _EMPTY_TALK.sub("", text))


def recites(text: str, feedback: str) -> bool:
    """A policy's text has the first sentence of the feedback on it, of three words or more.

    >>> recites("That is not it.", "That is not it. We write 1 as I."), recites("No.", "No.")
    (True, False)
    """
    first = _SENTENCE_END.split(feedback.strip(), maxsplit=1)[0]
    return len(first.split()) > 2 and first in without_thoughts(text)
