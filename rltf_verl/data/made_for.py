"""The environment that a dataset's rows were made for: what `rltf.env.name` calls it, and its
options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rltf_verl.data.provenance import read_provenance
from rltf_verl.data.schema import environments_of
from rltf_verl.envs import env_names, make_env
from rltf_verl.envs.base import Env

OWN = "own"
"""The choice of `rltf/env` for a class that the user names."""
AS_IT_IS = "reward_function"
"""The default environment of rows in verl's form."""


@dataclass(frozen=True, slots=True)
class DatasetOrigin:
    """An environment as a run's config names it."""

    spec: str
    """`rltf.env.name`: a name, `module:Class` or `path/to/file.py:Class`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Its options, where the file has them."""

    @property
    def own(self) -> bool:
        """It is a class that is named by its place."""
        return ":" in self.spec

    @property
    def overrides(self) -> str:
        """The words of a training run's command line that choose it."""
        if self.group != OWN:
            return f"rltf/env={self.group}"
        return f"rltf/env={OWN} rltf.env.name={self.spec if self.own else './FILE.py:CLASS'}"

    @property
    def group(self) -> str:
        """The choice of `rltf/env`."""
        return OWN if self.own or self.spec not in env_names() else self.spec

    def at(self, spec: str) -> DatasetOrigin:
        """The environment under another `spec`; it keeps its options if the class only moved."""
        # Compare the class's name only, without its place.
        same = spec.rpartition(":")[2] == self.spec.rpartition(":")[2]
        return DatasetOrigin(spec, self.options if same else {})


def made_for(path: str | Path, name: str) -> DatasetOrigin:
    """The file's record of the environment that its rows call `name` (`extra_info.env`); the name
    alone if it says nothing, e.g. because another program has written it again.
    """
    made = read_provenance(path)
    spec = str(made.get("env", ""))
    if name in (spec, made.get("env_name")):
        return DatasetOrigin(spec, made.get("options") or {})
    return DatasetOrigin(name)


def forgotten_options(path: str | Path, spec: str, options: Mapping[str, Any]) -> str:
    """The words that give a run's environment the options that the file was made with.

    Args:
        path: the dataset.
        spec: `rltf.env.name` of the run.
        options: the others of that block.

    Returns:
        Empty if the run has them, or the file was not made by that class.
    """
    made = read_provenance(path)
    is_moved = ":" in spec and str(made.get("env")).rpartition(":")[2] == spec.rpartition(":")[2]
    return " ".join(
        f"+rltf.env.{key}={value}"
        for key, value in (made.get("options") or {}).items()
        if is_moved and str(options.get(key)) != str(value)
    )


def takes_rows_of(path: str | Path, spec: str | None, options: Mapping[str, Any]) -> Env | None:
    """The environment `spec` where a file is in verl's form and not one of ours, so that its rows
    are problems to that environment only. Raises ValueError: it cannot be made.
    """
    try:
        if spec is None or environments_of(path):
            return None
    except OSError:  # the reader of the rows reports it
        return None
    env = make_env(spec, **options)
    return env if env.takes_rows else None


def require_known(path: str | Path, origin: DatasetOrigin) -> None:
    """Raise ValueError for an unknown environment, with the file and the fix. Its options are not
    checked: the command line may complete them.
    """
    trouble = _trouble(path, origin)
    if trouble is None:
        return
    try:
        make_env(origin.spec, **origin.options)  # an installed package may know the name
    except ValueError as error:
        raise ValueError(trouble) from error


def _trouble(path: str | Path, origin: DatasetOrigin) -> str | None:
    source, _, name = origin.spec.rpartition(":")
    if origin.own and source.endswith(".py") and not Path(source).expanduser().is_file():
        return (
            f"{path} was made for the environment {origin.spec}: no such file, seen from"
            f" {Path.cwd()}; work where it is, or add env.name=path/to/{Path(source).name}:{name}"
        )
    if not origin.own and origin.spec not in env_names():
        return (
            f"{path}: the environment {origin.spec} of its rows is not built in, and the file does"
            f" not name its place: add env.name=path/to/file.py:Class"
        )
    return None
