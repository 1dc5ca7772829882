"""The dataset rows that verl reads and our agent loop gets back: written and checked here only.

An environment's own fields travel as one JSON string, `extra_info.task`: datasets of several environments then have
one schema and can be concatenated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rltf_verl.types import Problem

AGENT_NAME = "rltf"
PROVENANCE_KEY = b"rltf"
FIX = "make the dataset with `rltf data build`"

SCHEMA = pa.schema(
    {
        "data_source": pa.string(),
        "prompt": pa.list_(pa.struct({"role": pa.string(), "content": pa.string()})),
        "ability": pa.string(),
        "reward_model": pa.struct({"style": pa.string(), "ground_truth": pa.string()}),
        "extra_info": pa.struct({"split": pa.string(), "index": pa.int64(), "env": pa.string(), "task": pa.string()}),
        "agent_name": pa.string(),
    }
)


def row_of(problem: Problem, prompt: str, split: str, subset: str = "") -> dict[str, Any]:
    """The dataset row of a problem, whose first user message is `prompt`. verl has metrics per `data_source`."""
    task = json.dumps(dict(problem.data), sort_keys=True, ensure_ascii=False)
    return {
        "data_source": f"rltf/{problem.env}/{subset}" if subset else f"rltf/{problem.env}",
        "prompt": [{"role": "user", "content": prompt}],
        "ability": "reasoning",
        "reward_model": {"style": "rule", "ground_truth": problem.reference},
        "extra_info": {"split": split, "index": problem.index, "env": problem.env, "task": task},
        "agent_name": AGENT_NAME,
    }


def problem_from_row(extra_info: Mapping[str, Any], reward_model: Mapping[str, Any]) -> Problem:
    """The problem that `row_of` wrote.

    Raises:
        ValueError: a field is missing or `task` is not a JSON object; names it and the fix.
    """
    task = _field(extra_info, "extra_info", "task")
    try:
        data = json.loads(task)
    except (TypeError, ValueError) as error:
        raise ValueError(f"extra_info.task is not JSON ({error}): {FIX}") from error
    if not isinstance(data, dict):
        raise ValueError(f"extra_info.task is JSON, but a {type(data).__name__} and not an object: {FIX}")
    return Problem(
        env=str(_field(extra_info, "extra_info", "env")),
        index=_index(_field(extra_info, "extra_info", "index")),
        data=data,
        reference=str(_field(reward_model, "reward_model", "ground_truth")),
    )


def check_parquet(path: str | Path) -> None:
    """Check that a file holds rows of ours. Reads its schema and its first row only.

    Raises:
        ValueError: not parquet, empty, or a column or field is missing; names the file, what is missing and the fix.
        FileNotFoundError: no such file.
    """
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a parquet file ({error}): {FIX}") from error
    with file:
        missing = [name for name in SCHEMA.names if name not in file.schema_arrow.names]
        if missing:
            raise ValueError(f"{path} has no column {', '.join(missing)}: {FIX}")
        first = next(file.iter_batches(batch_size=1, columns=["extra_info", "reward_model"]), None)
    if first is None or first.num_rows == 0:
        raise ValueError(f"{path} has no rows: {FIX}")
    row = first.to_pylist()[0]
    try:
        problem_from_row(row["extra_info"] or {}, row["reward_model"] or {})
    except ValueError as error:
        raise ValueError(f"{path}, first row: {error}") from error


def content_sha256(table: pa.Table) -> str:
    """Of the rows as JSON lines: the same for the same content, whatever the file's compression and metadata."""
    digest = hashlib.sha256()
    for batch in table.to_batches(max_chunksize=1024):
        for row in batch.to_pylist():
            digest.update(json.dumps(row, sort_keys=True, default=_as_json).encode() + b"\n")
    return digest.hexdigest()


def read_provenance(path: str | Path) -> dict[str, Any]:
    """How the file was made (command, environment, options, seed, versions); empty for files that are not ours."""
    metadata = pq.read_schema(path).metadata or {}
    provenance: dict[str, Any] = json.loads(metadata.get(PROVENANCE_KEY, b"{}"))
    return provenance


def _as_json(value: object) -> str:
    return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else repr(value)


def _index(value: Any) -> int:
    """A number as it is, other people's identifiers as a number that follows from them: seeds are made of it."""
    try:
        return int(value)
    except ValueError:
        return int.from_bytes(hashlib.sha256(str(value).encode()).digest()[:4], "big")


def _field(struct: Mapping[str, Any], column: str, name: str) -> Any:
    # datasets fills fields that only other files have with None
    value = struct.get(name)
    if value is None:
        raise ValueError(f"{column}.{name} is missing: {FIX}")
    return value
