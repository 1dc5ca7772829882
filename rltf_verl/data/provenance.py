"""Parquet files that record how they were made: written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rltf_verl import __version__

KEY = b"rltf"
"""Key in the file's metadata."""
Batches = Callable[[], Iterable[pa.RecordBatch]]
"""The rows of a file, each batch a row group: made once for their sha256, once more to be written.
"""


def read_provenance(path: str | Path) -> dict[str, Any]:
    """Origin of the file (command, environment, options, seed, versions); empty for files of other
    programs.
    """
    metadata = pq.read_schema(path).metadata or {}
    provenance: dict[str, Any] = json.loads(metadata.get(KEY, b"{}"))
    return provenance


def write_table(table: pa.Table, path: Path, provenance: Mapping[str, Any]) -> None:
    """Write a table with its provenance and the sha256 of its content; one that is killed leaves no
    half file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with finished(table.to_batches, table.schema, path, provenance) as unfinished:
        unfinished.replace(path)


@contextmanager
def finished(
    batches: Batches, schema: pa.Schema, path: Path, provenance: Mapping[str, Any]
) -> Iterator[Path]:
    """The rows in a whole file next to `path`, gone at the end if it was not moved there."""
    facts = {**provenance, "content_sha256": content_sha256(batches())}
    metadata = {**(schema.metadata or {}), KEY: json.dumps(facts, sort_keys=True).encode()}
    unfinished = path.with_name(f".{path.name}.part")  # the next try takes it after a kill
    try:
        with pq.ParquetWriter(unfinished, schema.with_metadata(metadata)) as writer:
            for batch in batches():
                writer.write_batch(batch)
        yield unfinished
    finally:
        unfinished.unlink(missing_ok=True)


def content_sha256(batches: Iterable[pa.RecordBatch]) -> str:
    """Hash of the rows as JSON lines: the same for the same content, whatever the file's
    compression and metadata.
    """
    digest = hashlib.sha256()
    for batch in batches:
        for start in range(0, batch.num_rows, 1024):
            for row in batch.slice(start, 1024).to_pylist():
                digest.update(json.dumps(row, sort_keys=True, default=_as_json).encode() + b"\n")
    return digest.hexdigest()


def versions(packages: Sequence[str] = ()) -> dict[str, str]:
    """Versions of the packages that decide a file's bytes."""
    ours = {
        "rltf_verl": __version__,
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
    }
    return {**ours, **{name: version(name) for name in packages}}


def _as_json(value: object) -> str:
    return hashlib.sha256(value).hexdigest() if isinstance(value, bytes) else repr(value)
