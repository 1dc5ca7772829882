"""From an episode log to training data: `rltf log export`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from rltf_verl.data.provenance import write_table
from rltf_verl.prompts import render, require_template, template_of
from rltf_verl.runlog.turns import Record, right, wrong

Row = dict[str, Any]

MESSAGES = pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))
SCHEMA = pa.schema(
    {
        "messages": MESSAGES,
        "env": pa.string(),
        "index": pa.int64(),
        "num_turns": pa.int64(),
        "solved": pa.bool_(),
    }
)
"""`messages` is the column that verl's `MultiTurnSFTDataset` reads; it trains on what the assistant
says.
"""

PREFERENCES = pa.schema(
    {
        "prompt": MESSAGES,
        "chosen": MESSAGES,
        "rejected": MESSAGES,
        "env": pa.string(),
        "index": pa.int64(),
    }
)
"""Columns that TRL's preference trainers read, conversational form."""


def dialogues(
    records: Iterable[Record],
    revise: str,
    *,
    only_solved: bool = True,
    split: str = "train",
) -> Iterator[Row]:
    """One row per episode of the split, in the order of the log.

    Args:
        records: of an episode log.
        revise: template of what follows an attempt, `prompts/revise/<name>.j2`; use the run's.
        only_solved: leave out episodes whose last answer is wrong.
        split: `train`; or `val`, which is also what evaluations write.
    """
    require_template("--revise", "revise", revise)
    for record in _of_split(records, split):
        turns = record["turns"]
        solved = bool(turns[-1]["grade"]["correct"])
        if solved or not only_solved:
            messages = _messages(record, revise)
            yield _dialogue(messages, record["env"], record["index"], len(turns), solved)


def answers(records: Iterable[Record], split: str = "train") -> Iterator[Row]:
    """First prompt and right answer, of whatever turn: each different one of a problem once (paper:
    the SFT arm). In `SCHEMA`, so verl's SFT trainer reads it.
    """
    for (env, index, _), problem in _by_problem(records, split).items():
        for text in problem.right:
            yield _dialogue([*problem.prompt, _assistant(text)], env, index, 1, True)


def preferences(records: Iterable[Record], split: str = "train") -> Iterator[Row]:
    """First prompt, a right answer and a wrong one to it: revisions over the attempts that they
    revise. Each different pair of a problem once.
    """
    for (env, index, _), problem in _by_problem(records, split).items():
        for wrong_text, right_text in problem.revised:
            yield {
                "prompt": problem.prompt,
                "chosen": [_assistant(right_text)],
                "rejected": [_assistant(wrong_text)],
                "env": env,
                "index": index,
            }


def export(
    rows: Sequence[Row], schema: pa.Schema, path: Path, provenance: Mapping[str, Any]
) -> int:
    """Write rows as parquet, and return how many. Raises ValueError without rows."""
    if not rows:
        raise ValueError(f"nothing to write to {path}: no episode of the log has what is asked for")
    write_table(pa.Table.from_pylist(list(rows), schema), path, provenance)
    return len(rows)


def _of_split(records: Iterable[Record], split: str) -> Iterator[Record]:
    """Raises ValueError: an attempt has steps."""
    for record in records:
        if any("steps" in turn for turn in record["turns"]):
            raise ValueError(
                f"problem {record['index']} of {record['env']}: its attempts have steps, and only"
                " attempts of one answer are written as training data; the log's lines hold each"
                " step"
            )
        if record["split"] == split:
            yield record


def _first_prompt(record: Record) -> list[Row]:
    return [*record.get("context", []), {"role": "user", "content": record["question"]}]


def _assistant(text: str) -> Row:
    return {"role": "assistant", "content": text}


def _dialogue(messages: list[Row], env: str, index: int, num_turns: int, solved: bool) -> Row:
    row = {"messages": messages, "env": env, "index": index}
    return row | {"num_turns": num_turns, "solved": solved}


def _messages(record: Record, revise: str) -> list[Row]:
    messages = _first_prompt(record)
    for turn in record["turns"]:
        messages.append(_assistant(turn["text"]))
        if turn is not record["turns"][-1]:
            text = render(
                template_of("revise", revise),
                question=record["question"],
                attempt=turn["text"],
                feedback=turn["feedback"]["text"],
            )
            messages.append({"role": "user", "content": text})
    return messages


class _Problem:
    """The answers to one problem; dicts for their order."""

    def __init__(self, prompt: list[Row]) -> None:
        self.prompt = prompt
        self.right: dict[str, None] = {}
        self.revised: dict[tuple[str, str], None] = {}


def _by_problem(records: Iterable[Record], split: str) -> dict[tuple[str, int, str], _Problem]:
    """By environment, index and question: datasets that were put together may share an index."""
    problems: dict[tuple[str, int, str], _Problem] = {}
    for record in _of_split(records, split):
        key = (record["env"], record["index"], record["question"])
        problem = problems.setdefault(key, _Problem(_first_prompt(record)))
        for before, turn in zip((None, *record["turns"]), record["turns"], strict=False):
            if not right(turn):
                continue
            problem.right[turn["text"]] = None
            if before is not None and wrong(before):
                problem.revised[before["text"], turn["text"]] = None
    return problems
