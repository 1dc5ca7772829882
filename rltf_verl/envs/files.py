"""Rows of local files, by `datasets`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rltf_verl.envs.json_files import check_json

BUILDERS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv"}


def load_file(path: Path) -> Any:
    """The rows of a local file as a `datasets.Dataset`.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another ending than `BUILDERS`, or a line that is no JSON object. `datasets`
            raises further errors about a file that it cannot read.
    """
    import datasets

    if not path.is_file():
        raise FileNotFoundError(f"no such file, seen from {Path.cwd()}")
    builder = BUILDERS.get(path.suffix)
    if builder is None:
        raise ValueError(f"must end in {', '.join(BUILDERS)}")
    if builder == "json":
        check_json(path)
    return datasets.load_dataset(builder, data_files=str(path), split="train")


def read_rows(key: str, path: str, seed: int | None = None) -> Iterator[Mapping[str, Any]]:
    """The rows of a file, in a random order if there is a seed.

    Args:
        key: config key that named the file, for errors.
        path: a file that ends in one of `BUILDERS`.
        seed: of `datasets.Dataset.shuffle`.

    Raises:
        ValueError: no such file, or none that can be read.
    """
    try:
        rows = load_file(Path(path))
    except Exception as error:  # whatever datasets raises about a file that is none
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ValueError(f"{key}={path}: cannot be read ({cause})") from error
    yield from rows if seed is None else rows.shuffle(seed=seed)
