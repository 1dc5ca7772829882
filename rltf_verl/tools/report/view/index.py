"""What the viewer's list and curves need of all episodes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from rltf_verl.runlog import turns as episode
from rltf_verl.runlog.rows import roles
from rltf_verl.runlog.turns import Record
from rltf_verl.tools.report.evaluation.table import problem_key
from rltf_verl.tools.report.view.curves import curves, totals
from rltf_verl.tools.report.view.row_words import ROLES, TRAINS
from rltf_verl.tools.report.view.training import training_curves, warnings

SNIPPET = 100
FLAGS: dict[str, Callable[[Sequence[Record]], bool]] = {
    "right at first": lambda turns: bool(turns) and episode.right(turns[0]),
    "fixed": episode.fixed,
    "broken": episode.broken,
    "unsolved": episode.unsolved,
    "leaked": episode.leaked,
    "withheld": episode.withheld,
    "fall-back": episode.fell_back,
    "errors": episode.failed,
    "not graded": episode.not_graded,
    "tree": lambda turns: len(episode.lines(turns)) > 1,
}
"""What the list can be filtered by; bit k of an episode's flags is the k-th."""
TRAINED = ("tokens known", *(f"trains {role}" for role in ROLES))
"""What it can be filtered by where it is known what an episode trained; bits as those of FLAGS."""


class Line(NamedTuple):
    """An episode in the list."""

    step: int
    split: str
    env: str
    problem: int
    """Its index, which concatenated datasets share."""
    asked: int
    """A hash that tells those apart."""
    uid: str
    session: int
    verdicts: str
    set: int
    trains: int
    words: int
    turns: int
    snippet: str


def path_to(record: Record) -> Line:
    """What the list shows of an episode."""
    turns = record["turns"]
    return Line(
        record["step"],
        record["split"],
        record["env"],
        record["index"],
        crc32(repr(problem_key(record)).encode()),
        record["uid"],
        record["session_id"],
        episode.verdicts(turns),
        _bits(is_so(turns) for is_so in FLAGS.values()),
        _trained(record),
        _words(turns),
        len(turns),
        " ".join(record["question"].split())[:SNIPPET],
    )


def list_index(lines: Sequence[Line], title: str) -> dict[str, Any]:
    """Columns over the episodes of the list, and the names of what they hold."""
    envs = sorted({line.env for line in lines})
    places = {env: k for k, env in enumerate(envs)}
    columns = {name: [line[k] for line in lines] for k, name in enumerate(Line._fields)}
    return {
        "title": title,
        "envs": envs,
        "flags": list(FLAGS),
        "trained": list(TRAINED),
        "roles": TRAINS,
    } | (columns | {"env": [places[line.env] for line in lines]})


def view_index(
    records: Sequence[Record], title: str, history: Mapping[int, Mapping[str, float]] | None = None
) -> dict[str, Any]:
    """Lists over the episodes, and the numbers of the whole run; `history`: its metrics by step."""
    return list_index([path_to(record) for record in records], title) | {
        "curves": curves(records) + training_curves(history or {}),
        "warnings": warnings(history or {}),
        "totals": totals(records),
    }


def has_tokens(record: Record) -> bool:
    """It is known what each token of the episode trained."""
    return any("tokens" in row for row in record.get("rows", ()))


def _trained(record: Record) -> int:
    own = roles(record)
    return _bits([has_tokens(record), *(role in own for role in ROLES)])


def _bits(values: Iterable[bool]) -> int:
    return sum(1 << k for k, is_so in enumerate(values) if is_so)


def _words(turns: Sequence[Record]) -> int:
    return sum(len(turn["feedback"]["text"].split()) for turn in turns if turn["feedback"])
