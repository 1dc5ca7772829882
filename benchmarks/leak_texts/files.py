"""Labelled feedback texts from files: does a text give its problem's answer away?

A folder of `*.jsonl` files, one text a line:

    {"env": "math", "problem_seed": 7, "attempt": "It is 5.", "text": "It is 4.", "leak": true,
    "category": "direct"}

* `env`, and optionally `options`: the environment and its options, `DEFAULTS` where the row has
  none.
* `problem_seed`: the problem is `build(seed=problem_seed, num_train=1, num_test=0).train[0]`.
* `attempt`: the wrong answer that the text is about. `text`: the feedback. `leak`: whether it gives
  the answer away.
* `category`: any word; recall is printed for each.

`rltf env show ENV` prints an environment's problems.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rltf_verl.envs import make_env
from rltf_verl.envs.base import Env
from rltf_verl.types import Problem

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "math": {"source": str(Path(__file__).with_name("school.jsonl"))},
    "reasoning_gym": {"task": "chain_sum"},
}
"""Options of environments that have no problems without any: small school problems, sums."""
FIELDS = {
    "env": str,
    "problem_seed": int,
    "attempt": str,
    "text": str,
    "leak": bool,
    "category": str,
}


@dataclass(frozen=True)
class Row:
    """One line of a file."""

    env_name: str
    env: Env
    problem: Problem
    attempt: str
    text: str
    kind: str
    """The category, `innocent` for a text that gives nothing away."""


def read_folder(folder: Path) -> Iterator[Row]:
    """The rows of all `*.jsonl` files of a folder, in order. Raises ValueError: names the file and
    the line.
    """
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise ValueError(f"{folder}: no *.jsonl file in it")
    for file in files:
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            if line.strip():
                try:
                    yield read_row(json.loads(line))
                except (ValueError, TypeError, KeyError) as error:
                    raise ValueError(f"{file}:{number}: {error}") from error


def read_row(row: Mapping[str, Any]) -> Row:
    """One row, with its problem. Raises ValueError: names the field."""
    for field, kind in FIELDS.items():
        if type(row.get(field)) is not kind:
            raise ValueError(f"{field}={row.get(field)!r} must be of type {kind.__name__}")
    env, problem = problem_of(row["env"], row["problem_seed"], row.get("options"))
    kind = row["category"] if row["leak"] else "innocent"
    return Row(row["env"], env, problem, row["attempt"], row["text"], kind)


def problem_of(
    name: str, seed: int, options: Mapping[str, Any] | None = None
) -> tuple[Env, Problem]:
    """An environment and the problem that a seed stands for."""
    return _problem(
        name,
        seed,
        json.dumps(DEFAULTS.get(name, {}) if options is None else options, sort_keys=True),
    )


@cache
def _problem(name: str, seed: int, options: str) -> tuple[Env, Problem]:
    env = _env(name, options)
    return env, env.build(seed=seed, num_train=1, num_test=0).train[0]


@cache
def _env(name: str, options: str) -> Env:
    return make_env(name, **json.loads(options))
