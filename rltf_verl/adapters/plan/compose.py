"""The configuration of a command line, as `python -m verl.trainer.main_ppo` composes it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import verl  # noqa: F401  # registers our search path with Hydra
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_automatic_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from rltf_verl.config import ConfigError

MAIN = "verl.trainer.main_ppo"
VERLS, OURS = "ppo_trainer", "rltf"
NO_KEY = re.compile(r"Key '(\w+)' is not in struct\s+full_key: ([\w.]+)")


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
        ConfigError: what Hydra says, in one line, and what to do.
    """
    search = create_automatic_config_search_path(None, MAIN, path or "config")
    if folder is not None:
        # before the schema, as Hydra has it: it takes the last place for the schema's
        search.prepend("command-line", f"file://{folder.expanduser().resolve()}", "schema")
    GlobalHydra.instance().clear()
    hydra = Hydra.create_main_hydra2(task_name="main_ppo", config_search_path=search)
    try:
        config = hydra.compose_config(
            name, list(overrides), RunMode.RUN, from_shell=True, with_log_configuration=False
        )
        with _known_to_hydra(config):
            config.trainer.experiment_name = str(config.trainer.experiment_name)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(_told(error, name, overrides)) from error
    finally:
        GlobalHydra.instance().clear()
    with open_dict(config):
        del config["hydra"]
    return config


@contextmanager
def _known_to_hydra(config: DictConfig) -> Iterator[None]:
    """What is named after the config asks Hydra for its name."""
    known = HydraConfig.instance()
    before = known.cfg
    known.set_config(config)
    try:
        yield
    finally:
        known.cfg = before


def _told(error: Exception, name: str, overrides: Sequence[str]) -> str:
    """Hydra's error in one line, with a better hint where it knows none."""
    text = str(error)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _missing(error.missing_cfg_file, list(error.options or ()))
    if isinstance(error, OverrideParseException):
        return (
            f"{error.override}: cannot be read; write key=value, and in quotes what has special"
            " characters: 'key=\"~/x\"'"
        )
    found = NO_KEY.search(text) or NO_KEY.search(str(error.__cause__))
    if found is not None:
        key, word = found[2], found[1]
        where = next((o for o in overrides if f"{word}=" in o or f"{word}." in o), key)
        return f"{where}: there is no key {word}{_closest(key, name)}"
    if "No match in the defaults list" in text and name == VERLS:
        return (
            f"--config-name={name}: verl's own config has no rltf/… groups; start from"
            " --config-name=rltf"
        )
    return " ".join(text.split())


def _missing(file: str, options: list[str]) -> str:
    """A primary config, or a choice of a group, that is not there."""
    group, _, choice = file.rpartition("/")
    if not group:
        folder = files("hydra_configs.rltf_verl").iterdir()
        options = [f.name.removesuffix(".yaml") for f in folder if f.name.endswith(".yaml")]
    named = f"{group}={choice}" if group else f"--config-name={choice}"
    near = difflib.get_close_matches(choice, options, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{named}: there is no {choice}{hint}; known: {', '.join(sorted(options))}"


def _closest(key: str, name: str) -> str:
    """The most similar key beside it; of a key at the top, also the same one in our block."""
    block, _, word = key.rpartition(".")
    try:
        config = compose_run(name, [])
    except ConfigError:
        return ""
    beside = (
        [f"{block}.{other}" for other in OmegaConf.select(config, block) or ()] if block else []
    )
    ours = [f"rltf.{other}" for other in config.get("rltf") or ()]
    tops = [str(other) for other in config]
    known = beside or [*ours, *tops]
    near = difflib.get_close_matches(key if block else word, known, n=1)
    if not block and f"rltf.{word}" in ours:
        near = [f"rltf.{word}"]
    return f"; did you mean {near[0]}?" if near else ""
