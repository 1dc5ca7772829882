"""The environment `code` in the real configuration: options, and what is refused."""

from __future__ import annotations

import pytest

from rltf_verl.adapters.startup import checks
from rltf_verl.config import ConfigError
from rltf_verl.envs import make_env
from rltf_verl.envs.sandbox import bubblewrap
from tests.support.configs import composed


@pytest.fixture(scope="module")
def rltf():
    config = composed(
        "rltf_sd", "rltf/hardware=cpu", "rltf/env=code", "actor_rollout_ref.model.path=/nowhere"
    )
    return checks.check_config(config)


def test_a_machine_without_the_sandbox_is_refused_before_anything_starts(rltf, monkeypatch):
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: None)
    with pytest.raises(ConfigError, match="apt-get install bubblewrap"):
        checks.check_machine(make_env(rltf.env.name, **rltf.env.options))
    checks.check_machine(make_env("code", sandbox="unsafe_process"))
    checks.check_machine(make_env("binary_matrix"))
