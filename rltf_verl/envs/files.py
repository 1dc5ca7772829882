"""Rows of a user's own file, by `datasets`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rltf_verl.envs.json_files import check_json

BUILDERS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv"}


def read_rows(key: str, path: str, seed: int | None = None) -> Iterator[Mapping[str, Any]]:
    """The rows of a file, in a random order if there is a seed.

    Args:
        key: config key that named the file, for errors.
        path: a file that ends in one of `BUILDERS`.
        seed: of `datasets.Dataset.shuffle`.

    Raises:
        ValueError: no such file, or none that can be read.
    """
    import datasets

    file = Path(path)
    if not file.is_file():
        raise ValueError(f"{key}={path}: no such file, seen from {Path.cwd()}")
    builder = BUILDERS.get(file.suffix)
    if builder is None:
        raise ValueError(f"{key}={path}: must end in {', '.join(BUILDERS)}")
    try:
        if builder == "json":
            check_json(file)
        rows = datasets.load_dataset(builder, data_files=str(file), split="train")
    except Exception as error:  # whatever datasets raises about a file that is none
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ValueError(f"{key}={path}: cannot be read ({cause})") from error
    yield from rows if seed is None else rows.shuffle(seed=seed)
