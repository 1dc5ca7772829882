"""The configuration of a command line, as `python -m verl.trainer.main_ppo` composes it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import verl  # noqa: F401  # registers our search path with Hydra
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_automatic_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rltf_verl.findings import ConfigError, Finding
from rltf_verl.tools.compose.presets import titles

MAIN = "verl.trainer.main_ppo"
OURS = "rltf"
NO_KEY = re.compile(r"Key '([\w/]+)' is not in struct\s+full_key: ([\w./]+)")
"""Hydra's words for a key that the config lacks: its name, and where it was looked for."""


def compose_run(
    name: str, overrides: Sequence[str], path: str | None = None, folder: Path | None = None
) -> DictConfig:
    """The config of a run, without the block `hydra`.

    Args:
        name: `--config-name`.
        overrides: Hydra's overrides.
        path: `--config-path`.
        folder: `--config-dir`.

    Raises:
        ConfigError: Hydra's error in one line, with the closest key or choice.
    """
    search = create_automatic_config_search_path(None, MAIN, path or "config")
    if folder is not None:
        # before the schema, as Hydra has it: it takes the last place for the schema's
        search.prepend("command-line", f"file://{folder.expanduser().resolve()}", "schema")
    GlobalHydra.instance().clear()
    hydra = Hydra.create_main_hydra2(task_name="main_ppo", config_search_path=search)
    try:
        config = _load(hydra, name, overrides)
        with _current(config):
            config.trainer.experiment_name = str(config.trainer.experiment_name)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_finding(error, hydra, name, overrides)) from error
    finally:
        GlobalHydra.instance().clear()
    with open_dict(config):
        del config["hydra"]
    return config


def _load(hydra: Any, name: str, overrides: Sequence[str]) -> DictConfig:
    config: DictConfig = hydra.config_loader.load_configuration(
        config_name=name, overrides=list(overrides), run_mode=RunMode.RUN, from_shell=True
    )
    return config


@contextmanager
def _current(config: DictConfig) -> Iterator[None]:
    """Names that interpolate the config's name ask Hydra for it."""
    current = HydraConfig.instance()
    before = current.cfg
    current.set_config(config)
    try:
        yield
    finally:
        current.cfg = before


def _finding(error: Exception, hydra: Any, name: str, overrides: Sequence[str]) -> Finding:
    # Hydra says which override failed; its cause, OmegaConf's error, says which part of the key
    text = f"{error} {error.__cause__ or ''}"
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _missing(error.missing_cfg_file, list(error.options or ()))
    lost = NO_KEY.search(text)
    if lost is None:
        return Finding("", None, " ".join(text.split()), "")
    word, key = lost[1], lost[2]
    where = next((o for o in overrides if f"{word}=" in o or f"{word}." in o), key)
    whole, _, value = where.partition("=")
    group = key.replace(".", "/")
    if group in _groups():
        return Finding(whole, value, "a group is chosen with /", f"write {group}={value}")
    try:
        keys = [] if "/" in key else [*_keys("", _load(hydra, name, []))]
    except (HydraException, OmegaConfBaseException):
        keys = []
    block = whole.lstrip("+~-").rpartition(".")[0]
    if block in keys and not any(other.startswith(f"{block}.") for other in keys):
        fix = f"a choice takes its parameters in a block: '{block}={{name: NAME, {word}: {value}}}'"
        return Finding(whole, value, f"{block} is one value", fix)
    near = _closest(whole.lstrip("+~-"), word, keys or _groups())
    return Finding(whole, value, f"there is no key {word}", f"did you mean {near}?" if near else "")


def _missing(file: str, options: list[str]) -> Finding:
    """A primary config, or a choice of a group, that does not exist."""
    group, _, choice = file.rpartition("/")
    if group.startswith(f"{OURS}/method"):
        group, choice = f"{OURS}/method", file.removeprefix(f"{OURS}/method/")
        options = [*titles("method")]
    if not group:
        folder = files("hydra_configs.rltf_verl").iterdir()
        options = [f.name.removesuffix(".yaml") for f in folder if f.name.endswith(".yaml")]
    if group.startswith(f"{OURS}/env") and ".py:" in choice:
        path = file.removeprefix(f"{OURS}/env/")
        return Finding(f"{OURS}/env", path, "", f"write {OURS}/env=own {OURS}.env.name={path}")
    ends = {option.rpartition("/")[2]: option for option in options}
    bare = choice.removeprefix(f"{OURS}_")
    swapped = [end for end in ends if sorted(end) == sorted(bare)]  # letters in another order
    near = difflib.get_close_matches(bare, swapped or ends, n=1)
    hint = f"did you mean {ends[near[0]]}? " if near else ""
    names = f"{hint}choose one of {', '.join(sorted(options))}"
    return Finding(group or "--config-name", choice, f"there is no {choice}", names)


def _groups() -> list[str]:
    """Ours: `rltf/method` and the like."""
    folder = files("hydra_configs.rltf_verl").joinpath(OURS)
    return [f"{OURS}/{f.name}" for f in folder.iterdir() if f.is_dir()]


def _keys(block: str, config: Mapping[Any, Any]) -> Iterator[str]:
    """All keys, those of blocks too."""
    for name in config:
        key = f"{block}.{name}" if block else str(name)
        if key == "hydra":
            continue
        yield key
        if not OmegaConf.is_missing(config, name) and not OmegaConf.is_interpolation(config, name):
            inner = config[name]
            if isinstance(inner, Mapping | DictConfig):
                yield from _keys(key, inner)


def _closest(key: str, word: str, keys: Sequence[str]) -> str | None:
    """The key that was meant: one of the same name, or whose name ends with it, in another block,
    ours and those of whole runs first; else the most similar.
    """
    # a key that moved out of a block may have a word before its name: distill.classes
    for ends in ((f".{key}",), (f".{word}", f"_{word}")):
        same = [other for other in keys if other.endswith(ends)]
        if same:
            # False comes before True
            return min(same, key=lambda other: (not other.startswith(OURS), other.count(".")))
    near = difflib.get_close_matches(key, keys, n=1)
    return near[0] if near else None
