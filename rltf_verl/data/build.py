"""Problems -> train.parquet and test.parquet, the same bytes for the same seed, options and versions."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track

from rltf_verl import __version__
from rltf_verl.data.schema import PROVENANCE_KEY, SCHEMA, row_of
from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.types import Problem


class Paths(NamedTuple):
    """The files of one dataset."""

    train: Path
    test: Path


def build_parquet(
    env_name: str, out_dir: str | Path, seed: int, num_train: int, num_test: int, **env_options: Any
) -> Paths:
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
    provenance = _provenance(env_name, seed, num_train, num_test, env_options)
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    paths = Paths(folder / "train.parquet", folder / "test.parquet")
    _write(env, splits.train, "train", paths.train, provenance)
    _write(env, splits.test, "test", paths.test, provenance)
    return paths


def _write(env: Env, problems: Sequence[Problem], split: str, path: Path, provenance: Mapping[str, Any]) -> None:
    progress = track(
        problems, f"{env.name} {split}", console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    )
    rows = [row_of(problem, env.prompt(problem), split) for problem in progress]
    metadata = {PROVENANCE_KEY: json.dumps({**provenance, "split": split}, sort_keys=True).encode()}
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA.with_metadata(metadata)), unfinished)
        unfinished.replace(path)  # a build that is killed leaves no half file under the real name
    finally:
        unfinished.unlink(missing_ok=True)


def _provenance(env_name: str, seed: int, num_train: int, num_test: int, options: Mapping[str, Any]) -> dict[str, Any]:
    # No output folder, time or host: they would change the bytes without changing the data.
    call = ["rltf", "data", "build", env_name, f"--seed={seed}", f"--num-train={num_train}", f"--num-test={num_test}"]
    return {
        "command": shlex.join([*call, *(f"{key}={value}" for key, value in sorted(options.items()))]),
        "env": env_name,
        "options": dict(options),
        "seed": seed,
        "num_train": num_train,
        "num_test": num_test,
        "versions": {"rltf_verl": __version__, "python": platform.python_version(), "pyarrow": pa.__version__},
    }
