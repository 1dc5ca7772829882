"""What the viewer's list and curves need of all sessions at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rltf_verl.report.view.curves import curves, totals
from rltf_verl.report.view.row_words import ROLES, TRAINS
from rltf_verl.runlog import turns as session
from rltf_verl.runlog.rows import roles
from rltf_verl.runlog.turns import Record

SNIPPET = 100
FLAGS: dict[str, Callable[[Sequence[Record]], bool]] = {
    "right at first": lambda turns: bool(turns) and session.right(turns[0]),
    "fixed": session.fixed,
    "broken": session.broken,
    "unsolved": session.unsolved,
    "leaked": session.leaked,
    "withheld": session.withheld,
    "fall-back": session.fell_back,
    "errors": session.failed,
    "not graded": session.not_graded,
    "tree": lambda turns: len(session.lines(turns)) > 1,
}
"""What the list can be filtered by; bit k of a session's flags is the k-th."""
TRAINED = ("tokens known", *(f"trains {role}" for role in ROLES))
"""What it can be filtered by where it is known what a session trained; bits as those of FLAGS."""


def view_index(records: Sequence[Record], title: str) -> dict[str, Any]:
    """Lists over the sessions, and the numbers of the whole run."""
    envs = sorted({record["env"] for record in records})
    return {
        "title": title,
        "envs": envs,
        "flags": list(FLAGS),
        "trained": list(TRAINED),
        "roles": TRAINS,
        "step": [record["step"] for record in records],
        "split": [record["split"] for record in records],
        "env": [envs.index(record["env"]) for record in records],
        "problem": [record["index"] for record in records],
        "session": [record["session_id"] for record in records],
        "verdicts": [session.verdicts(record["turns"]) for record in records],
        "set": [_bits(is_so(record["turns"]) for is_so in FLAGS.values()) for record in records],
        "trains": [_trained(record) for record in records],
        "words": [_words(record["turns"]) for record in records],
        "turns": [len(record["turns"]) for record in records],
        "snippet": [" ".join(record["question"].split())[:SNIPPET] for record in records],
        "curves": curves(records),
        "totals": totals(records),
    }


def has_tokens(record: Record) -> bool:
    """It is known what each token of the session trained."""
    return any("tokens" in row for row in record.get("rows", ()))


def _trained(record: Record) -> int:
    own = roles(record)
    return _bits([has_tokens(record), *(role in own for role in ROLES)])


def _bits(values: Iterable[bool]) -> int:
    return sum(1 << k for k, is_so in enumerate(values) if is_so)


def _words(turns: Sequence[Record]) -> int:
    return sum(len(turn["feedback"]["text"].split()) for turn in turns if turn["feedback"])
