"""Problems -> train.parquet and test.parquet, the same bytes for the same seed, options and versions."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track

from rltf_verl import __version__
from rltf_verl.data.schema import PROVENANCE_KEY, SCHEMA, content_sha256, row_of
from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env, HasSubsets
from rltf_verl.types import Problem


class Built(NamedTuple):
    """The files of one dataset, and what is in them."""

    train: Path
    test: Path
    num_train: int
    num_test: int
    notes: tuple[str, ...]
    """What a user should know about the build."""


def build_parquet(
    env_name: str, out_dir: str | Path, seed: int, num_train: int, num_test: int, **env_options: Any
) -> Built:
    """Write a dataset for verl into `out_dir`; existing files of the same names are replaced.

    Args:
        env_name: environment, see `rltf_verl.envs.env_names`.
        out_dir: folder, made if needed.
        seed: seed of everything random.
        num_train: rows of train.parquet.
        num_test: rows of test.parquet.
        env_options: options of the environment, as in `rltf.env.<option>`.

    Raises:
        ValueError: the environment does not exist or cannot make this dataset.
    """
    env = make_env(env_name, **env_options)
    splits = env.build(seed, num_train, num_test)
    provenance = _provenance(env_name, env, seed, num_train, num_test, env_options, splits.notes)
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    train, test = folder / "train.parquet", folder / "test.parquet"
    _write(env, splits.train, "train", train, provenance)
    _write(env, splits.test, "test", test, provenance)
    return Built(train, test, len(splits.train), len(splits.test), splits.notes)


def write_table(table: pa.Table, path: Path, provenance: Mapping[str, Any]) -> None:
    """Write a table with its provenance and the sha256 of its content; one that is killed leaves no half file."""
    facts = {**provenance, "content_sha256": content_sha256(table)}
    metadata = {**(table.schema.metadata or {}), PROVENANCE_KEY: json.dumps(facts, sort_keys=True).encode()}
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table.replace_schema_metadata(metadata), unfinished)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def versions(packages: Sequence[str] = ()) -> dict[str, str]:
    """Of what decides the bytes of a file."""
    ours = {"rltf_verl": __version__, "python": platform.python_version(), "pyarrow": pa.__version__}
    return {**ours, **{name: version(name) for name in packages}}


def _write(env: Env, problems: Sequence[Problem], split: str, path: Path, provenance: Mapping[str, Any]) -> None:
    progress = track(
        problems, f"{env.name} {split}", console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    )
    rows = [row_of(problem, env.prompt(problem), split, _subset(env, problem)) for problem in progress]
    write_table(pa.Table.from_pylist(rows, SCHEMA), path, {**provenance, "split": split})


def _subset(env: Env, problem: Problem) -> str:
    return env.subset(problem) if isinstance(env, HasSubsets) else ""


def _provenance(
    env_name: str, env: Env, seed: int, num_train: int, num_test: int, options: Mapping[str, Any], notes: Sequence[str]
) -> dict[str, Any]:
    # No output folder, time or host: they would change the bytes without changing the data.
    call = ["rltf", "data", "build", env_name, f"--seed={seed}", f"--num-train={num_train}", f"--num-test={num_test}"]
    return {
        "command": shlex.join([*call, *(f"{key}={value}" for key, value in sorted(options.items()))]),
        "env": env_name,
        "options": dict(options),
        "seed": seed,
        "num_train": num_train,
        "num_test": num_test,
        "notes": list(notes),
        "versions": versions(getattr(env, "packages", ())),
    }
