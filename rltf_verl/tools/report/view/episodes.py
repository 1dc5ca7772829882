"""One episode on the page: its row of the list, its conversation, the tokens of its rows.

A browser lays out many tokens for minutes, so a long text keeps its beginning and its end; a note
in between has the number of what is left out and the command that prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from rltf_verl.runlog import turns as episode
from rltf_verl.runlog.rows import roles
from rltf_verl.runlog.turns import Record
from rltf_verl.tools.report.evaluation.bootstrap import problem_key
from rltf_verl.tools.report.row_words import ROLES, rows_in_words, said

SNIPPET = 100
MOST_TEXT, MOST_TOKEN = 100_000, 1000
"""Characters of a text, and of a token's text."""
MOST_TOKENS, MOST_EPISODE_TOKENS = 10_000, 20_000
"""Tokens of one row, and of all rows of an episode."""
LEAST_TOKENS = 20
"""Tokens that each row has, however many rows there are."""
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
}
"""Filters of the list; bit k of an episode's flags is the k-th."""
TRAINED = ("tokens known", *(f"trains {role}" for role in ROLES))
"""Filters where the log has what an episode trained; bits as those of FLAGS."""
UNSHOWN = ("task", "rows", "prompt_ids", "response_ids", "log_probs")
"""Fields of an episode or a turn that the page does not show as they are."""


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


def line_of(record: Record) -> Line:
    """The row of the list for an episode."""
    turns = record["turns"]
    trained = roles(record)
    feedback = " ".join(turn["feedback"]["text"] for turn in turns if turn["feedback"])
    trains = _bits([has_tokens(record), *(role in trained for role in ROLES)])
    return Line(
        step=record["step"],
        split=record["split"],
        env=record["env"],
        problem=record["index"],
        # not `hash`, which differs between processes
        asked=crc32(repr(problem_key(record)).encode()),
        uid=record["uid"],
        session=record["session_id"],
        verdicts=episode.verdicts(turns),
        set=_bits(is_so(turns) for is_so in FLAGS.values()),
        trains=trains,
        words=len(feedback.split()),
        turns=len(turns),
        snippet=" ".join(record["question"].split())[:SNIPPET],
    )


def conversation(record: Record, tokens_name: str) -> dict[str, Any]:
    """An episode without its tokens, which are the part `tokens_name` of the page."""
    turns = record["turns"]
    shown = _without(record, UNSHOWN)
    shown["turns"] = [_turn(turn) for turn in turns]
    if "rows" in record:
        shown["rows"] = rows_in_words(record["rows"], turns)
    # a key only where there are tokens: the page asks for the part by that name
    shown |= {"tokens": tokens_name} if has_tokens(record) else {}
    return {name: bounded(value, record["step"]) for name, value in shown.items()}


def _turn(turn: Record) -> dict[str, Any]:
    """A turn; of its steps what is shown."""
    steps = []
    for step in turn.get("steps", ()):
        calls = [[a["tool"], a["arguments"]] for a in step["actions"] if a["tool"]]
        steps.append({"said": said(step), "calls": calls, "results": step["results"]})
    return _without(turn, UNSHOWN) | ({"steps": steps} if steps else {})


def tokens(record: Record) -> list[Any]:
    """Per row the columns of its tokens, None where the log has none."""
    return bounded_tokens([row.get("tokens") for row in record["rows"]], record["step"])


def has_tokens(record: Record) -> bool:
    """True if the log has what each token of the episode trained."""
    return any("tokens" in row for row in record.get("rows", ()))


def _without(fields: Record, names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _bits(values: Iterable[bool]) -> int:
    return sum(1 << k for k, is_so in enumerate(values) if is_so)


def bounded(value: Any, step: int, most: int = MOST_TEXT) -> Any:
    """A JSON value without the middles of its long texts.

    Args:
        value: of an episode.
        step: of the episode.
        most: characters of a text, about.
    """
    if isinstance(value, str) and len(value) > most:
        # both ends: a text's end says how it came out
        half = most // 2
        note = _note(f"{len(value) - 2 * half} characters", step)
        return f"{value[:half]}\n{note}\n{value[-half:]}"
    if isinstance(value, dict):
        return {key: bounded(item, step, most) for key, item in value.items()}
    return [bounded(item, step, most) for item in value] if isinstance(value, list) else value


def bounded_tokens(rows: Sequence[Any], step: int) -> list[Any]:
    """Per row the columns of its tokens (None where the log has none) without the middle of a long
    row: `left_out` has its position, its number of tokens, and the note to show there.
    """
    share = MOST_EPISODE_TOKENS // max(1, len(rows))
    most = min(MOST_TOKENS, max(LEAST_TOKENS, share))
    return [row and bounded(_without_middle(row, most, step), step, MOST_TOKEN) for row in rows]


def _without_middle(columns: Mapping[str, Any], most: int, step: int) -> dict[str, Any]:
    length = len(columns["text"])
    if length <= most:
        return dict(columns)
    half = most // 2
    number = length - 2 * half
    shown = {name: [*column[:half], *column[-half:]] for name, column in columns.items()}
    note = _note(f"{number} tokens", step)
    return shown | {"left_out": {"at": half, "number": number, "note": note}}


def _note(amount: str, step: int) -> str:
    return f"[… {amount} are not on this page: rltf inspect LOG --step {step} prints them …]"
