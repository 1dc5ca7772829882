"""verl's configuration as `main_ppo` composes it, at a hundredth of the price.

Composing takes half a second, most of it YAML, the rest merging. So each process reads a file once,
merges the files with which all configs begin once, composes a choice of groups once, and applies
the overrides of single keys to a copy, by Hydra's own function.
"""

import pickle
import re
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import verl  # noqa: F401  # registers our search path with Hydra
from hydra import compose, initialize_config_dir, initialize_config_module, version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import ConfigRepository, IConfigRepository
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.core_plugins.importlib_resources_config_source import (
    ImportlibResourcesConfigSource,
)
from hydra.core.default_element import ResultDefault
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import Container, DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from tools.methods_table import Preset, load_presets


class _Kept(ConfigResult):
    """A file that was read before; its config is made where one looks at it."""

    def __init__(self, key: tuple[Any, ...], read: ConfigResult, pickled: bytes) -> None:
        self.key, self._pickled, self._config = key, pickled, None
        self.provider, self.path, self.header = read.provider, read.path, dict(read.header)
        self.defaults_list, self.is_schema_source = read.defaults_list, read.is_schema_source

    @property
    def config(self) -> Container:
        if self._config is None:
            self._config = pickle.loads(self._pickled)
        return self._config

    @config.setter
    def config(self, config: Container) -> None:
        self._config = config


def _file_of(source: ConfigSource | None, config_path: str) -> Path | None:
    if isinstance(source, FileConfigSource):
        root = Path(source.path).resolve()
    elif isinstance(source, ImportlibResourcesConfigSource):
        root = Path(str(files(source.path)))
    else:
        return None
    file = root / source._normalize_file_name(config_path)
    return file if file.is_file() else None


def _read_once() -> None:
    """Let Hydra keep each file that it has read, until the file changes."""
    load, kept = ConfigRepository.load_config, {}

    def loaded(self: ConfigRepository, config_path: str) -> ConfigResult | None:
        source = self._find_object_source(config_path, ObjectType.CONFIG)
        file = _file_of(source, config_path)
        if file is None:
            return load(self, config_path)
        state = file.stat()
        named = source.provider, source.path, config_path, str(file), version.getbase()
        key = (*named, state.st_mtime_ns, state.st_size)
        if key not in kept:
            read = load(self, config_path)
            kept[key] = read, pickle.dumps(read.config)
        return _Kept(key, *kept[key])

    ConfigRepository.load_config = loaded


def _merge_once() -> None:
    """Let Hydra merge the beginning that configs share once, known by its files and their state."""
    kept: dict[tuple[Any, ...], bytes] = {}

    def merged(self: ConfigLoaderImpl, defaults: list[ResultDefault], repo: IConfigRepository):
        named = tuple((d.config_path, d.package, d.primary, _key(repo, d)) for d in defaults)
        whole = ("whole", *named)
        if whole in kept:
            return pickle.loads(kept[whole])
        num = next((n for n in range(len(named), 0, -1) if named[:n] in kept), 0)
        config = pickle.loads(kept[named[:num]]) if num else OmegaConf.create()
        for at, default in enumerate(defaults[num:], num + 1):
            _merge(config, self._load_single_config(default, repo), default)
            if default.config_path in ("ppo_trainer", "rltf/base"):
                kept[named[:at]] = pickle.dumps(config)
        _strip_defaults(config)
        kept[whole] = pickle.dumps(config)
        return config

    ConfigLoaderImpl._compose_config_from_defaults_list = merged


def _key(repo: IConfigRepository, default: ResultDefault) -> Any:
    return getattr(repo.load_config(default.config_path), "key", None)


def _merge(config: DictConfig, loaded: ConfigResult, default: ResultDefault) -> None:
    """A step of Hydra's `_compose_config_from_defaults_list`."""
    with flag_override(config, "no_deepcopy_set_nodes", True):
        try:
            config.merge_with(loaded.config)
        except OmegaConfBaseException as error:
            raise ConfigCompositionException(  # noqa: B904  as Hydra does
                f"In '{default.config_path}': {type(error).__name__} raised while"
                f" composing config:\n{error}"
            ).with_traceback(sys.exc_info()[2])


def _strip_defaults(config: Any) -> None:
    """The end of it."""
    if not isinstance(config, DictConfig) or config._is_missing() or config._is_none():
        return
    if config._get_flag("HYDRA_REMOVE_TOP_LEVEL_DEFAULTS"):
        with flag_override(config, ["readonly", "struct"], False):
            config._set_flag("HYDRA_REMOVE_TOP_LEVEL_DEFAULTS", None)
            config.pop("defaults", None)
    for _, value in config.items_ex(resolve=False):
        _strip_defaults(value)


_read_once()
_merge_once()
version._get_version = cache(version._get_version)

VALUE = re.compile(r"[+~]*[^/=]+\.[^/=]+(=|$)")
"""`a.b=c` is an override of a key; `rltf/hardware=cpu` and `+trainer=x` may choose a group."""


def composed(name: str, *overrides: str, folder: Path | None = None) -> DictConfig:
    """The config `name` with `overrides` as on the command line, a copy of its own.

    `folder` is the one that `--config-path` names; without it the name is one of verl or of ours.
    """
    values = [word for word in overrides if VALUE.match(word)]
    groups = tuple(word for word in overrides if not VALUE.match(word))
    return changed(pickle.loads(_pickled(name, groups, folder)), values)


def changed(config: DictConfig, values: list[str]) -> DictConfig:
    """The config itself, with overrides of keys."""
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
