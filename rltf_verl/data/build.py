"""Problems -> train.parquet and test.parquet, the same bytes for the same seed, options and
versions.
"""

from __future__ import annotations

import glob
import json
import os
import platform
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
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

    Killed at any moment, it leaves the old pair, the new one, or no train.parquet: never one file
    of each.

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
    for split, asked, found in (
        ("train", num_train, splits.train),
        ("test", num_test, splits.test),
    ):
        if asked and not found:
            raise ValueError(
                f"num_{split}={asked}: no problem is left for {split}.parquet; lower --num-train or"
                f" --num-test, set --num-{split} 0, or name a larger source"
            )
    provenance = _provenance(env_name, env, seed, num_train, num_test, env_options, splits.notes)
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    train, test = folder / "train.parquet", folder / "test.parquet"
    with ExitStack() as unfinished:
        new_train, new_test = (
            unfinished.enter_context(
                _finished(
                    _table(env, problems, path.stem), path, {**provenance, "split": path.stem}
                )
            )
            for path, problems in ((train, splits.train), (test, splits.test))
        )
        train.unlink(missing_ok=True)
        new_test.replace(test)
        new_train.replace(train)
    return Built(train, test, len(splits.train), len(splits.test), splits.notes)


def write_table(table: pa.Table, path: Path, provenance: Mapping[str, Any]) -> None:
    """Write a table with its provenance and the sha256 of its content; one that is killed leaves no
    half file.
    """
    with _finished(table, path, provenance) as unfinished:
        unfinished.replace(path)


def refuse_existing(paths: Sequence[Path], overwrite: bool) -> None:
    """Raise ValueError if a file is there that may not be replaced."""
    there = [str(path) for path in paths if path.exists()]
    if there and not overwrite:
        raise ValueError(
            f"{', '.join(there)}: there already; name another --out, or replace it with --overwrite"
        )


@contextmanager
def _finished(table: pa.Table, path: Path, provenance: Mapping[str, Any]) -> Iterator[Path]:
    """The table in a whole file beside `path`, gone at the end if it was not moved there."""
    facts = {**provenance, "content_sha256": content_sha256(table)}
    metadata = {
        **(table.schema.metadata or {}),
        PROVENANCE_KEY: json.dumps(facts, sort_keys=True).encode(),
    }
    _remove_leftovers(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table.replace_schema_metadata(metadata), unfinished)
        yield unfinished
    finally:
        unfinished.unlink(missing_ok=True)


def _remove_leftovers(path: Path) -> None:
    """What processes that were killed had begun to write."""
    for begun in path.parent.glob(f".{glob.escape(path.name)}.*"):
        if (writer := begun.suffix[1:]).isdecimal() and not _runs(int(writer)):
            begun.unlink(missing_ok=True)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def versions(packages: Sequence[str] = ()) -> dict[str, str]:
    """Of what decides the bytes of a file."""
    ours = {
        "rltf_verl": __version__,
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
    }
    return {**ours, **{name: version(name) for name in packages}}


def _table(env: Env, problems: Sequence[Problem], split: str) -> pa.Table:
    progress = track(
        problems,
        f"{env.name} {split}",
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    rows = [
        row_of(problem, env.prompt(problem), split, _subset(env, problem)) for problem in progress
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


def _subset(env: Env, problem: Problem) -> str:
    return env.subset(problem) if isinstance(env, HasSubsets) else ""


def _provenance(
    env_name: str,
    env: Env,
    seed: int,
    num_train: int,
    num_test: int,
    options: Mapping[str, Any],
    notes: Sequence[str],
) -> dict[str, Any]:
    # No output folder, time or host: they would change the bytes without changing the data.
    call = [
        "rltf",
        "data",
        "build",
        env_name,
        f"--seed={seed}",
        f"--num-train={num_train}",
        f"--num-test={num_test}",
    ]
    return {
        "command": shlex.join(
            [*call, *(f"{key}={value}" for key, value in sorted(options.items()))]
        ),
        "env": env_name,
        "env_name": env.name,
        "options": dict(options),
        "seed": seed,
        "num_train": num_train,
        "num_test": num_test,
        "notes": list(notes),
        "versions": versions(getattr(env, "packages", ())),
    }
