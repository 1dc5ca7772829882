"""The real verl configuration, composed as `main_ppo --config-name=rltf_sd` composes it."""

from copy import deepcopy
from functools import cache

import pytest
import verl  # noqa: F401  # registers our search path with Hydra
import yaml
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf


@cache
def _composed(hardware):
    """Composing takes a second."""
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(
            "rltf_sd", [f"rltf/hardware={hardware}", "actor_rollout_ref.model.path=/nowhere"]
        )


@pytest.fixture
def verl_config():
    """`key=value` overrides as on the command line -> a config of its own."""

    def make(*overrides, hardware="cpu"):
        config = deepcopy(_composed(hardware))
        OmegaConf.set_struct(config, False)
        for override in overrides:
            key, _, value = override.partition("=")
            OmegaConf.update(config, key, yaml.safe_load(value))
        return config

    return make
