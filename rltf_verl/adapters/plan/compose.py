"""The configuration of a command line, as `python -m verl.trainer.main_ppo` composes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import verl  # noqa: F401  # registers our search path with Hydra
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_automatic_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, open_dict
from omegaconf.errors import OmegaConfBaseException

from rltf_verl.adapters.startup.hydra_words import in_one_line, loaded
from rltf_verl.config import ConfigError

MAIN = "verl.trainer.main_ppo"


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
        config = loaded(hydra, name, overrides)
        with _known_to_hydra(config):
            config.trainer.experiment_name = str(config.trainer.experiment_name)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(in_one_line(error, hydra, name, overrides)) from error
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
