"""Every experiment of `recipes/rltf`, composed once."""

from collections.abc import Callable
from typing import Any

import pytest
import verl  # noqa: F401  # registers our search path with Hydra
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from tests.recipes.experiments import CONFIGS


@pytest.fixture(scope="session")
def composed() -> Callable[..., DictConfig]:
    """Name and overrides -> config, from the recipe's folder alone."""
    seen: dict[tuple[str, ...], DictConfig] = {}

    def make(*told: str) -> DictConfig:
        if told not in seen:
            name, *overrides = told
            with initialize_config_dir(str(CONFIGS), version_base=None):
                seen[told] = compose(name, overrides)
        return seen[told]

    return make


@pytest.fixture(scope="session")
def value() -> Callable[[DictConfig, str], Any]:
    """A key's value as plain Python."""

    def read(config: DictConfig, key: str) -> Any:
        found = OmegaConf.select(config, key, throw_on_missing=True)
        return OmegaConf.to_container(found, resolve=True) if OmegaConf.is_config(found) else found

    return read
