"""From an episode log to dialogues for verl's SFT trainer: what student and teacher said, in one conversation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rltf_verl.data.schema import PROVENANCE_KEY
from rltf_verl.prompts import render, require_template
from rltf_verl.report.session import lines

MESSAGES = pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))
SCHEMA = pa.schema(
    {"messages": MESSAGES, "env": pa.string(), "index": pa.int64(), "num_turns": pa.int64(), "solved": pa.bool_()}
)
"""`messages` is the column that verl's `MultiTurnSFTDataset` reads; it trains on what the assistant says."""


def dialogues(
    records: Iterable[Mapping[str, Any]], revise: str, *, only_solved: bool = True
) -> Iterator[dict[str, Any]]:
    """One row per line of every training session, in the order of the log.

    Args:
        records: of an episode log.
        revise: template of what follows an attempt, `prompts/revise/<name>.j2`; use the run's.
        only_solved: leave out lines whose last answer is wrong.
    """
    require_template("--revise", "revise", revise)
    for record in records:
        if record["split"] == "train":
            for line in lines(record["turns"]):
                solved = bool(line[-1]["grade"]["correct"])
                if solved or not only_solved:
                    said = _messages(record["question"], line, revise)
                    own = {"env": record["env"], "index": record["index"]}
                    yield {"messages": said, **own, "num_turns": len(line), "solved": solved}


def write_dialogues(rows: Sequence[Mapping[str, Any]], path: Path, provenance: Mapping[str, Any]) -> None:
    """Write the rows as parquet.

    Raises:
        ValueError: there are none.
    """
    if not rows:
        raise ValueError("no dialogue to write: no training session of the log ends with a correct answer")
    metadata = {PROVENANCE_KEY: json.dumps(dict(provenance), sort_keys=True).encode()}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.part")
    pq.write_table(pa.Table.from_pylist(list(rows), SCHEMA.with_metadata(metadata)), unfinished)
    unfinished.replace(path)


def _messages(question: str, line: Sequence[Mapping[str, Any]], revise: str) -> list[dict[str, str]]:
    said = [{"role": "user", "content": question}]
    for turn in line:
        said.append({"role": "assistant", "content": turn["text"]})
        if turn is not line[-1]:
            told = render(
                f"revise/{revise}", question=question, attempt=turn["text"], feedback=turn["feedback"]["text"]
            )
            said.append({"role": "user", "content": told})
    return said
