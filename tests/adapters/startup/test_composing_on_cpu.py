"""What `tests/support/configs.py` keeps of Hydra's work changes nothing of what is composed."""

from typing import Any

import pytest
from hydra import initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig

from tests.support import configs

WORDS = ["rltf/feedback=judge", "rltf.gamma=0.5", "+data.x=[1,{a: b}]"]


def composed() -> DictConfig:
    """The whole, with Hydra's own settings."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        loader = GlobalHydra.instance().config_loader()
        return loader.load_configuration("rltf", WORDS, RunMode.RUN)


def all_of(node: Any) -> Any:
    """A config with its types and flags, as far as OmegaConf knows them."""
    metadata = {
        key: value for key, value in vars(node._metadata).items() if key != "resolver_cache"
    }
    value = node._value()
    if isinstance(node, DictConfig) and isinstance(value, dict):
        value = [(key, all_of(inner)) for key, inner in value.items()]
    elif isinstance(node, ListConfig) and isinstance(value, list):
        value = [all_of(inner) for inner in value]
    return type(node), metadata, value


def test_a_config_is_what_hydra_makes_of_it() -> None:
    with pytest.MonkeyPatch.context() as patch:
        for owner, function, own in configs.REPLACED:
            assert own.__module__.startswith("hydra.")
            patch.setattr(owner, function, own)
        own = all_of(composed())
    assert all_of(composed()) == own
    assert all_of(composed()) == own, "from what was kept"
