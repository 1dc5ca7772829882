"""The real verl configuration, composed as `main_ppo --config-name=rltf_sd` composes it."""

from functools import cache

import pytest
import verl  # noqa: F401  # registers our search path with Hydra
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf


@cache
def _composed(*overrides):
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("rltf_sd", overrides=["rltf/hardware=cpu", "actor_rollout_ref.model.path=/nowhere", *overrides])


@pytest.fixture
def verl_config():
    """Overrides -> a config of its own."""
    return lambda *overrides: OmegaConf.create(_composed(*overrides))
