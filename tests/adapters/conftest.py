"""The real verl configuration, composed as `main_ppo --config-name=rltf_sd` composes it."""

import pytest
import yaml
from omegaconf import OmegaConf

from tests.support.configs import composed


@pytest.fixture
def verl_config():
    """`key=value` overrides as on the command line -> a config of its own."""

    def make(*overrides, hardware="cpu"):
        config = composed(
            "rltf_sd", f"rltf/hardware={hardware}", "actor_rollout_ref.model.path=/nowhere"
        )
        OmegaConf.set_struct(config, False)
        for override in overrides:
            key, _, value = override.partition("=")
            OmegaConf.update(config, key, yaml.safe_load(value))
        return config

    return make
