"""A dataset that was made for something else (verl's GSM8K form, say) as one of ours: what it holds
stays as it is.

Added are the column `agent_name` and, in the struct `extra_info`, the fields `env`, `task` and, if
missing, `index`. Rows keep their order, columns their content and type, whatever they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rltf_verl.data.provenance import made_by, versions, write_table
from rltf_verl.data.schema import (
    AGENT_NAME,
    MEDIA,
    NO_CHAT,
    is_json,
    is_nan,
    refuse_media,
    text_of,
)
from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.envs.files import read_rows
from rltf_verl.tools.data.check import CheckedFile, check_table

FIX = "rename or drop it first"


def wrap_parquet(
    source: str | Path, env_name: str, out: str | Path, **env_options: Any
) -> CheckedFile:
    """Write `source` with what our agent loop needs to `out`, and return what `rltf data check`
    says of its rows.

    Args:
        source: parquet file, .json or .jsonl, with verl's columns `prompt` and `reward_model`.
        env_name: environment that grades its answers; one that can make do with question and
            reference (`Env.data_of`).
        out: file to write; may not be the source.
        env_options: options of the environment, for the check that it takes the rows.

    Raises:
        ValueError: the file or the environment cannot be used; names the column or row, and what to
            do.
    """
    source, out = Path(source), Path(out)
    if not source.exists():
        raise ValueError(f"{source}: no such file, seen from {Path.cwd()}")
    env = make_env(env_name, **env_options)
    if not env.takes_rows:
        raise ValueError(
            f"--env {env_name}: it has no method data_of, so rows of other datasets are no problems"
            " to it; name math, or give a class of yours data_of (docs/data.md)"
        )
    if out.exists() and out.samefile(source):
        raise ValueError(f"--out {out} is the source itself: name another file")
    wrapped = _wrap_row(_table_of(source), env, env.name, str(source))
    checked = check_table(source, wrapped)
    if checked.errors:
        raise ValueError(checked.errors[0])
    words = ["wrap", source.name, "--env", env_name]
    facts = made_by(words, env_name, env, env_options, seed=None, versions=versions())
    write_table(wrapped, out, facts)
    return checked


def _table_of(source: Path) -> pa.Table:
    """The rows of a parquet file, or of one of JSON as verl reads it. Raises ValueError."""
    if not is_json(source):
        try:
            return pq.read_table(source)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{source} is not a parquet file ({error})") from error
    return pa.Table.from_pylist(list(read_rows("FILE", str(source))))


def _wrap_row(table: pa.Table, env: Env, env_name: str, where: str) -> pa.Table:
    _check_columns(table, where)
    needed = [
        name
        for name in ("data_source", "prompt", "reward_model", "extra_info")
        if name in table.column_names
    ]
    tasks = [_task(env, i, row, where) for i, row in enumerate(table.select(needed).to_pylist())]
    added = {"env": pa.array([env_name] * len(tasks)), "task": pa.array(tasks)}
    info = _with_fields(table, added, where)
    position = table.schema.get_field_index("extra_info")
    if position < 0:  # pyarrow's −1: no such column
        table = table.append_column("extra_info", info)
    else:
        table = table.set_column(position, "extra_info", info)
    if "agent_name" not in table.column_names:
        table = table.append_column("agent_name", pa.array([AGENT_NAME] * table.num_rows))
    kept = dict(table.schema.metadata or {})
    kept.pop(b"huggingface", None)  # what `datasets` wrote would contradict the new columns
    return table.replace_schema_metadata(kept)


def _check_columns(table: pa.Table, where: str) -> None:
    missing = [
        name for name in ("data_source", "prompt", "reward_model") if name not in table.column_names
    ]
    if missing:
        raise ValueError(f"{where} has no column {', '.join(missing)}: it is not in verl's form")
    if not table.num_rows:
        raise ValueError(f"{where} has no rows")
    for name in set(MEDIA) & set(table.column_names):
        refuse_media(name, table.column(name).chunks, where)
    if "agent_name" in table.column_names and set(table.column("agent_name").to_pylist()) != {
        AGENT_NAME
    }:
        raise ValueError(f"{where} has a column agent_name with another agent loop in it: {FIX}")
    for name in ("extra_info", "reward_model"):
        kind = table.schema.field(name).type if name in table.column_names else pa.null()
        if not pa.types.is_struct(kind) and not pa.types.is_null(kind):
            raise ValueError(f"{where}: the column {name} is a {kind} and no struct: {FIX}")


def _task(env: Env, i: int, row: Mapping[str, Any], where: str) -> str:
    reference = (row["reward_model"] or {}).get("ground_truth")
    if reference is None or is_nan(reference):
        raise ValueError(f"{where}, row {i}: reward_model.ground_truth is missing")
    try:
        data = dict(env.data_of(text_of(row["prompt"][-1]["content"]), row))
    except ValueError as error:
        raise ValueError(f"{where}, row {i}: {error}") from error
    except (TypeError, LookupError, AttributeError) as error:
        raise ValueError(f"{where}, row {i}: {NO_CHAT}") from error
    return json.dumps(data, sort_keys=True, ensure_ascii=False)


def _with_fields(table: pa.Table, added: Mapping[str, pa.Array], where: str) -> pa.Array:
    """The struct `extra_info` with more fields; an index that is there stays."""
    fields: dict[str, pa.Array] = {}
    if "extra_info" in table.column_names and not pa.types.is_null(
        table.schema.field("extra_info").type
    ):
        old = table.column("extra_info").combine_chunks()
        # `flatten` hands the nulls of the struct down to its fields, `field` would not
        fields = dict(zip([field.name for field in old.type], old.flatten(), strict=True))
    # a field of nulls only holds nothing of the source's
    taken = [
        name for name in added if name in fields and fields[name].null_count < len(fields[name])
    ]
    if taken:
        raise ValueError(f"{where} has extra_info.{taken[0]} already: {FIX}")
    if "index" not in fields or fields["index"].null_count:
        if "index" in fields and fields["index"].null_count < len(fields["index"]):
            raise ValueError(f"{where}: extra_info.index is missing in some rows: {FIX}")
        fields["index"] = pa.array(range(table.num_rows), pa.int64())
    fields.update(added)
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))
