"""verl's configuration as `main_ppo` composes it, at a fifth of the price.

Composing takes half a second, half of it reading YAML. So each process reads a text once, composes
a choice of groups once, and applies the overrides of single keys to a copy, by Hydra's own
function.
"""

import io
import pickle
import re
from functools import cache
from pathlib import Path
from typing import Any

import verl  # noqa: F401  # registers our search path with Hydra
from hydra import compose, initialize_config_dir, initialize_config_module
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from yaml import YAMLError

from tools.methods_table import Preset, load_presets

_load = OmegaConf.load


@cache
def _read(text: str) -> bytes:
    return pickle.dumps(_load(io.StringIO(text)))


def _load_once(file: Any) -> Any:
    """`OmegaConf.load`, with what it has made of a text before."""
    if not isinstance(file, io.TextIOBase):
        return _load(file)
    try:
        return pickle.loads(_read(file.read()))
    except YAMLError:  # again, for a message with the file's name
        file.seek(0)
        return _load(file)


# Hydra calls it for each file of each composition, and offers no cache of its own.
OmegaConf.load = _load_once  # type: ignore[method-assign]

VALUE = re.compile(r"[+~]*[^/=]+\.[^/=]+(=|$)")
"""`a.b=c` is an override of a key; `rltf/hardware=cpu` and `+trainer=x` may choose a group."""


def composed(name: str, *overrides: str, folder: Path | None = None) -> DictConfig:
    """The config `name` with `overrides` as on the command line, a copy of its own.

    `folder` is the one that `--config-path` names; without it the name is one of verl or of ours.
    """
    values = [word for word in overrides if VALUE.match(word)]
    groups = tuple(word for word in overrides if not VALUE.match(word))
    config = pickle.loads(_pickled(name, groups, folder))
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
