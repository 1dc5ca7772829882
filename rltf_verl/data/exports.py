"""From an episode log to training data and tables: what `rltf log export` writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rltf_verl.data.dialogues import MESSAGES, first_prompt
from rltf_verl.data.schema import PROVENANCE_KEY
from rltf_verl.runlog.turns import Record, right, wrong

Row = dict[str, Any]

PREFERENCES = pa.schema(
    {
        "prompt": MESSAGES,
        "chosen": MESSAGES,
        "rejected": MESSAGES,
        "env": pa.string(),
        "index": pa.int64(),
    }
)
"""As TRL's preference trainers read them, conversational form."""

TURNS = pa.schema(
    {
        "step": pa.int64(),
        "split": pa.string(),
        "uid": pa.string(),
        "session_id": pa.int64(),
        "env": pa.string(),
        "index": pa.int64(),
        "turn": pa.int64(),
        "parent": pa.int64(),
        "question": pa.string(),
        "reference": pa.string(),
        "prompt": pa.string(),
        "text": pa.string(),
        "answer": pa.string(),
        "correct": pa.bool_(),
        "format_ok": pa.bool_(),
        "reward": pa.float64(),
        "num_tokens": pa.int64(),
        "ended": pa.bool_(),
        "feedback": pa.string(),
        "provider": pa.string(),
        "leak": pa.string(),
        "latency_s": pa.float64(),
        "stop": pa.string(),
        "error": pa.string(),
    }
)


def answers(records: Iterable[Record], split: str | None = "train") -> Iterator[Row]:
    """First prompt and right answer, of whatever turn: each different one of a problem once (paper:
    the SFT arm).

    In the schema of `dialogues.SCHEMA`, so verl's SFT trainer reads it.
    """
    for (env, index, _), known in _by_problem(records, split).items():
        for text in known.right:
            said = [*known.prompt, _assistant(text)]
            yield {"messages": said, "env": env, "index": index, "num_turns": 1, "solved": True}


def preferences(records: Iterable[Record], split: str | None = "train") -> Iterator[Row]:
    """First prompt, a right answer and a wrong one to it: revisions over the attempts that they
    revise.

    Each different pair of a problem once.
    """
    for (env, index, _), known in _by_problem(records, split).items():
        for wrong_text, right_text in known.revised:
            chosen, rejected = [_assistant(right_text)], [_assistant(wrong_text)]
            yield {
                "prompt": known.prompt,
                "chosen": chosen,
                "rejected": rejected,
                "env": env,
                "index": index,
            }


def turns(records: Iterable[Record], split: str | None = None) -> Iterator[Row]:
    """One row per attempt, of training and validation unless `split` says one of them; for
    dataframes.
    """
    for record in records:
        if split not in (None, record["split"]):
            continue
        place = {
            name: record[name]
            for name in (
                "step",
                "split",
                "uid",
                "session_id",
                "env",
                "index",
                "question",
                "reference",
            )
        }
        for k, turn in enumerate(record["turns"]):
            said, grade = turn["feedback"] or {}, turn["grade"]
            own = {
                name: turn.get(name)
                for name in (
                    "parent",
                    "prompt",
                    "text",
                    "reward",
                    "num_tokens",
                    "ended",
                    "stop",
                    "error",
                )
            }
            graded = {
                "answer": grade["parsed"],
                "correct": grade["correct"],
                "format_ok": grade["format_ok"],
            }
            told = {
                "feedback": said.get("text"),
                **{n: said.get(n) for n in ("provider", "leak", "latency_s")},
            }
            yield place | {"turn": k} | own | graded | told


def write_table(
    rows: Sequence[Row], schema: pa.Schema, path: Path, provenance: Mapping[str, Any]
) -> None:
    """Write rows as parquet.

    Raises:
        ValueError: there are none.
    """
    if not rows:
        raise ValueError(f"nothing to write to {path}: no episode of the log has what is asked for")
    metadata = {PROVENANCE_KEY: json.dumps(dict(provenance), sort_keys=True).encode()}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.part")
    pq.write_table(pa.Table.from_pylist(list(rows), schema.with_metadata(metadata)), unfinished)
    unfinished.replace(path)


class _Known:
    """What the episodes at one problem said; dicts for their order."""

    def __init__(self, prompt: list[dict[str, str]]) -> None:
        self.prompt = prompt
        self.right: dict[str, None] = {}
        self.revised: dict[tuple[str, str], None] = {}


def _by_problem(records: Iterable[Record], split: str | None) -> dict[tuple[str, int, str], _Known]:
    """By environment, index and question: datasets that were put together may share an index."""
    found: dict[tuple[str, int, str], _Known] = {}
    for record in records:
        if split not in (None, record["split"]):
            continue
        key = (record["env"], record["index"], record["question"])
        known = found.setdefault(key, _Known(first_prompt(record)))
        for turn in record["turns"]:
            before = None if turn["parent"] is None else record["turns"][turn["parent"]]
            if right(turn):
                known.right[turn["text"]] = None
                if before is not None and wrong(before):
                    known.revised[before["text"], turn["text"]] = None
    return found


def _assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}
