"""From an episode log to training data and tables: `rltf log export`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from rltf_verl.data.provenance import write_table
from rltf_verl.prompts import render, require_template, template_of
from rltf_verl.runlog.turns import Record, lines, right, wrong

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

EPISODE_COLUMNS = ("step", "split", "uid", "session_id", "env", "index", "question", "reference")
ATTEMPT_COLUMNS = ("parent", "prompt", "text", "reward", "num_tokens", "ended", "stop", "error")
FEEDBACK_COLUMNS = ("provider", "leak", "latency_s")
"""Columns of `TURNS` that have the log's names."""


def dialogues(
    records: Iterable[Record],
    revise: str,
    *,
    only_solved: bool = True,
    split: str | None = "train",
) -> Iterator[Row]:
    """One row per branch of every episode of the split, in the order of the log.

    Args:
        records: of an episode log.
        revise: template of what follows an attempt, `prompts/revise/<name>.j2`; use the run's.
        only_solved: leave out branches whose last answer is wrong.
        split: `train`; or `val`, which is also what evaluations write; None is both.
    """
    require_template("--revise", "revise", revise)
    for record in _of_split(records, split):
        for branch in lines(record["turns"]):
            solved = bool(branch[-1]["grade"]["correct"])
            if solved or not only_solved:
                messages = _messages(record, branch, revise)
                yield _dialogue(messages, record["env"], record["index"], len(branch), solved)


def answers(records: Iterable[Record], split: str | None = "train") -> Iterator[Row]:
    """First prompt and right answer, of whatever turn: each different one of a problem once (paper:
    the SFT arm). In `SCHEMA`, so verl's SFT trainer reads it.
    """
    for (env, index, _), problem in _by_problem(records, split).items():
        for text in problem.right:
            yield _dialogue([*problem.prompt, _assistant(text)], env, index, 1, True)


def preferences(records: Iterable[Record], split: str | None = "train") -> Iterator[Row]:
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


def turns(records: Iterable[Record], split: str | None = None) -> Iterator[Row]:
    """One row per attempt, of training and validation unless `split` names one; for dataframes."""
    for record in _of_split(records, split):
        for k, turn in enumerate(record["turns"]):
            feedback, grade = turn["feedback"] or {}, turn["grade"]
            yield {
                **{name: record[name] for name in EPISODE_COLUMNS},
                "turn": k,
                **{name: turn.get(name) for name in ATTEMPT_COLUMNS},
                "answer": grade["parsed"],
                "correct": grade["correct"],
                "format_ok": grade["format_ok"],
                "feedback": feedback.get("text"),
                **{name: feedback.get(name) for name in FEEDBACK_COLUMNS},
            }


def export(
    rows: Sequence[Row], schema: pa.Schema, path: Path, provenance: Mapping[str, Any]
) -> int:
    """Write rows as parquet, and return how many. Raises ValueError without rows."""
    if not rows:
        raise ValueError(f"nothing to write to {path}: no episode of the log has what is asked for")
    write_table(pa.Table.from_pylist(list(rows), schema), path, provenance)
    return len(rows)


def _of_split(records: Iterable[Record], split: str | None) -> Iterator[Record]:
    return (record for record in records if split in (None, record["split"]))


def _first_prompt(record: Record) -> list[Row]:
    return [*record.get("context", []), {"role": "user", "content": record["question"]}]


def _assistant(text: str) -> Row:
    return {"role": "assistant", "content": text}


def _dialogue(messages: list[Row], env: str, index: int, num_turns: int, solved: bool) -> Row:
    row = {"messages": messages, "env": env, "index": index}
    return row | {"num_turns": num_turns, "solved": solved}


def _messages(record: Record, branch: Sequence[Record], revise: str) -> list[Row]:
    messages = _first_prompt(record)
    for turn in branch:
        messages.append(_assistant(turn["text"]))
        if turn is not branch[-1]:
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


def _by_problem(
    records: Iterable[Record], split: str | None
) -> dict[tuple[str, int, str], _Problem]:
    """By environment, index and question: datasets that were put together may share an index."""
    problems: dict[tuple[str, int, str], _Problem] = {}
    for record in _of_split(records, split):
        key = (record["env"], record["index"], record["question"])
        problem = problems.setdefault(key, _Problem(_first_prompt(record)))
        for turn in filter(right, record["turns"]):
            problem.right[turn["text"]] = None
            before = None if turn["parent"] is None else record["turns"][turn["parent"]]
            if before is not None and wrong(before):
                problem.revised[before["text"], turn["text"]] = None
    return problems
