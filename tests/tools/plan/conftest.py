"""A run's folder as the working directory, on a machine that pretends to have no GPU."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import DictConfig
from verl.plugin.platform import platform_manager

from rltf_verl.cpu.hooks import register_platform
from rltf_verl.tools.data.build import build_parquet
from rltf_verl.tools.plan.build import Plan, make_plan
from rltf_verl.tools.plan.inputs import inspect_run
from tests.support.engine.tiny_model import tiny_model
from tests.support.plan_runs import configured, fill, pretend

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `plan_runs`."""
    return fill(tmp_path_factory.mktemp("home"))


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., DictConfig]:
    """Overrides, as on the command line -> a config that is right but for them."""
    monkeypatch.chdir(home)
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    register_platform(platform_manager)  # verl was imported before the variable was set
    for name in ("RAY_ADDRESS", "WANDB_API_KEY", "WANDB_MODE", "NETRC", "HF_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    pretend(monkeypatch, "cpu")
    monkeypatch.setattr("rltf_verl.adapters.startup.model._hub_is_there", lambda: False)
    return configured


@pytest.fixture
def plan_of(run: Callable[..., DictConfig], tmp_path: Path) -> Callable[..., Plan]:
    """Name of an environment, or its file and class, and overrides -> the plan of a run with it."""
    model = tiny_model(tmp_path / "model")
    shutil.copy(ROOT / "recipes" / "agents" / "chat_template.jinja", model)

    def make(env: str, *words: str, attempt: str | None = None) -> Plan:
        build_parquet(env, tmp_path, 0, 6, 2)
        own = "rltf/env=own" if ":" in env else f"rltf/env={env}"
        config = run(
            *(own, *([f"rltf.env.name={env}"] if ":" in env else [])),
            *("custom_reward_function.path=null", f"actor_rollout_ref.model.path={model}"),
            *(
                f"data.train_files={tmp_path}/train.parquet",
                f"data.val_files={tmp_path}/test.parquet",
            ),
            *("data.max_prompt_length=4000", "data.max_response_length=4000"),
            *words,
        )
        return make_plan(inspect_run(config), 2, attempt)

    return make
