"""verl's configuration as `main_ppo` composes it, at a hundredth of the price.

Composing takes half a second, most of it YAML. So each process reads a file once, composes a
choice of groups once, and applies the overrides of single keys to a copy, by Hydra's own function.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path

import verl  # noqa: F401  # registers our search path with Hydra
from hydra import compose, initialize_config_dir, initialize_config_module
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.core_plugins.importlib_resources_config_source import (
    ImportlibResourcesConfigSource,
)
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import DictConfig

from rltf_verl.adapters.startup.presets import Preset, load_presets


def _read_once(source: type[ConfigSource], root: Callable[[ConfigSource], Path]) -> None:
    """Let `source` keep each file that it has read, until the file changes."""
    load, kept = source.load_config, {}

    def loaded(self: ConfigSource, config_path: str) -> ConfigResult:
        file = root(self) / self._normalize_file_name(config_path)
        if not file.is_file():
            return load(self, config_path)
        state = file.stat()
        key = (self.provider, self.path, str(file), state.st_mtime_ns, state.st_size)
        if key not in kept:
            kept[key] = pickle.dumps(load(self, config_path))
        return pickle.loads(kept[key])

    source.load_config = loaded


_read_once(FileConfigSource, lambda source: Path(source.path).resolve())
_read_once(ImportlibResourcesConfigSource, lambda source: Path(str(files(source.path))))

VALUE = re.compile(r"[+~]*[^/=]+\.[^/=]+(=|$)")
"""`a.b=c` is an override of a key; `rltf/hardware=cpu` and `+trainer=x` may choose a group."""


def composed(name: str, *overrides: str, folder: Path | None = None) -> DictConfig:
    """The config `name` with `overrides` as on the command line, a copy of its own.

    `folder` is the one that `--config-path` names; without it the name is one of verl or of ours.
    """
    values = [word for word in overrides if VALUE.match(word)]
    groups = tuple(word for word in overrides if not VALUE.match(word))
    config: DictConfig = pickle.loads(_pickled(name, groups, folder))
    parsed = OverridesParser.create().parse_overrides(values)
    ConfigLoaderImpl._apply_overrides_to_config(parsed, config)
    return config


@cache
def presets() -> list[Preset]:
    """All presets, for reading."""
    return load_presets()


@cache
def _pickled(name: str, groups: tuple[str, ...], folder: Path | None) -> bytes:
    """Reading it back takes 5 ms, a deep copy 30."""
    start = (
        initialize_config_module("verl.trainer.config", version_base=None)
        if folder is None
        else initialize_config_dir(str(folder), version_base=None)
    )
    with start:
        return pickle.dumps(compose(name, list(groups)))
