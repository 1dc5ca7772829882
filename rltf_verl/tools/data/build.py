"""Problems -> train.parquet and test.parquet, the same bytes for the same seed, options and
versions.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from rich.console import Console
from rich.progress import track

from rltf_verl.data.provenance import finished, versions
from rltf_verl.data.schema import SCHEMA, row_of
from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.registry import raised_by
from rltf_verl.types import Problem


class Built(NamedTuple):
    """The files of one dataset, and what is in them."""

    train: Path
    test: Path
    num_train: int
    num_test: int
    notes: tuple[str, ...]
    """Lines for the user about the build."""


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
    try:
        splits = env.build(seed, num_train, num_test)
        train_table = _table(env, splits.train, "train")
        test_table = _table(env, splits.test, "test")
    except ValueError:
        raise
    except Exception as error:  # user code
        raise ValueError(f"{env_name}: {raised_by(type(env), error)}") from error
    _require_problems("train", num_train, splits.train)
    _require_problems("test", num_test, splits.test)
    sizes = [f"--seed={seed}", f"--num-train={num_train}", f"--num-test={num_test}"]
    values = [f"{key}={value}" for key, value in sorted(env_options.items())]
    # without folder, time and host: they would change the bytes without changing the data
    provenance = {
        "command": shlex.join(["rltf", "data", "build", env_name, *sizes, *values]),
        "env": env_name,
        "env_name": env.name,
        "options": env_options,
        "seed": seed,
        "num_train": num_train,
        "num_test": num_test,
        "notes": list(splits.notes),
        "versions": versions(env.packages),
    }
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    train, test = folder / "train.parquet", folder / "test.parquet"
    with (
        finished(
            train_table.to_batches, SCHEMA, train, {**provenance, "split": "train"}
        ) as new_train,
        finished(test_table.to_batches, SCHEMA, test, {**provenance, "split": "test"}) as new_test,
    ):
        # train.parquet goes first and comes last: where it is there, it belongs to this
        # test.parquet
        train.unlink(missing_ok=True)
        new_test.replace(test)
        new_train.replace(train)
    return Built(train, test, len(splits.train), len(splits.test), splits.notes)


def _require_problems(split: str, asked: int, problems: Sequence[Problem]) -> None:
    if asked and not problems:
        raise ValueError(
            f"num_{split}={asked}: no problem is left for {split}.parquet; lower --num-train or"
            f" --num-test, set --num-{split} 0, or name a larger source"
        )


def _table(env: Env, problems: Sequence[Problem], split: str) -> pa.Table:
    progress = track(
        problems,
        f"{env.name} {split}",
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    rows = [row_of(p, env.prompt(p), split, env.subset(p)) for p in progress]
    return pa.Table.from_pylist(rows, SCHEMA)
