"""From an episode log to dialogues for verl's SFT trainer: what student and teacher said, in one
conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rltf_verl.prompts import render, require_template, template_of
from rltf_verl.runlog.turns import lines

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


def dialogues(
    records: Iterable[Mapping[str, Any]],
    revise: str,
    *,
    only_solved: bool = True,
    split: str | None = "train",
) -> Iterator[dict[str, Any]]:
    """One row per line of every episode of the split, in the order of the log.

    Args:
        records: of an episode log.
        revise: template of what follows an attempt, `prompts/revise/<name>.j2`; use the run's.
        only_solved: leave out lines whose last answer is wrong.
        split: `train`; or `val`, which is also what evaluations and probes write; None is both.
    """
    require_template("--revise", "revise", revise)
    for record in records:
        if split in (None, record["split"]):
            for line in lines(record["turns"]):
                solved = bool(line[-1]["grade"]["correct"])
                if solved or not only_solved:
                    said = _messages(record, line, revise)
                    own = {"env": record["env"], "index": record["index"]}
                    yield {"messages": said, **own, "num_turns": len(line), "solved": solved}


def first_prompt(record: Mapping[str, Any]) -> list[dict[str, str]]:
    """The first prompt of an episode as chat messages."""
    return [*record.get("context", []), {"role": "user", "content": record["question"]}]


def _messages(
    record: Mapping[str, Any], line: Sequence[Mapping[str, Any]], revise: str
) -> list[dict[str, str]]:
    said = first_prompt(record)
    for turn in line:
        said.append({"role": "assistant", "content": turn["text"]})
        if turn is not line[-1]:
            told = render(
                template_of("revise", revise),
                question=record["question"],
                attempt=turn["text"],
                feedback=turn["feedback"]["text"],
            )
            said.append({"role": "user", "content": told})
    return said
