"""A run's folder as the working directory, on a machine that pretends to have no GPU."""

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig

from tests.support.plan_runs import configured, fill, pretend


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `plan_runs`."""
    return fill(tmp_path_factory.mktemp("home"))


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., DictConfig]:
    """Overrides, as on the command line -> a config that is right but for them."""
    monkeypatch.chdir(home)
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    for name in ("RAY_ADDRESS", "WANDB_API_KEY", "WANDB_MODE", "NETRC", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    pretend(monkeypatch, "cpu")
    monkeypatch.setattr("rltf_verl.adapters.startup.model._hub_is_there", lambda: False)
    return configured
