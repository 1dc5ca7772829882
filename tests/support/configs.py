"""verl's configuration as `main_ppo` composes it, at a hundredth of the price.

Composing takes half a second, so each process composes a config's files once per choice of groups
and applies the overrides of single keys to a copy, by Hydra's own function.
"""

from __future__ import annotations

import pickle
import re
from functools import cache
from pathlib import Path

import verl  # noqa: F401  # registers our search path with Hydra
from hydra import compose, initialize_config_dir, initialize_config_module
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig

from rltf_verl.adapters.startup.presets import Preset, load_presets

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
