"""What `import verl` costs and changes for somebody who does not use us, and what it registers for
who does.
"""

import json
import os
import subprocess
import sys

import pytest

HEAVY = [
    "torch",
    "verl",
    "ray",
    "transformers",
    "tensordict",
    "omegaconf",
    "hydra",
    "numpy",
    "jinja2",
    "pyarrow",
]

NAMES = """
import json, sys, warnings
warnings.simplefilter("ignore")
import verl
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from verl.experimental.agent_loop import agent_loop
from verl.plugin.platform.platform_manager import PlatformRegistry
from verl import checkpoint_engine
from verl.trainer import main_ppo
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
from verl.utils import config, distributed
from verl.workers import engine_workers
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.rollout import base, replica
found = {
    "advantages": sorted(map(str, core_algos.ADV_ESTIMATOR_REGISTRY)),
    "losses": sorted(core_algos.POLICY_LOSS_REGISTRY),
    "agent_loops": sorted(agent_loop._agent_loop_registry),
    "trainers": sorted(TRAINER_REGISTRY),
    "platforms": sorted(PlatformRegistry.registered_names()),
    "replicas": sorted(replica.RolloutReplicaRegistry._registry),
    "checkpoint_engines": sorted(checkpoint_engine.CheckpointEngineRegistry._registry),
    "rollouts": sorted(name for name, _ in base._ROLLOUT_REGISTRY),
    "fsdp2_devices": sorted(EngineRegistry._engines["language_model"]["fsdp2"]),
    "search_paths": sorted(c.__name__ for c in Plugins.instance().discover(SearchPathPlugin)),
    "wrapped": sorted(f.__module__ for f in (
        main_ppo.validate_config, config.validate_config,
        distributed.initialize_global_process_group_ray,
        engine_workers.initialize_global_process_group_ray,
    ) if hasattr(f, "__wrapped__")),
    "ours": sorted(m for m in sys.modules if m.startswith("rltf_verl")),
}
print(json.dumps(found))
"""

BOTH = """
import json, os
import aiohttp, datasets, ray, tensordict, torch._dynamo, transformers

printed = []
for way in {ways}:
    read, write = os.pipe()
    if os.fork() == 0:
        os.dup2(write, 1)
        os.environ.update(way)
        exec({names!r})
        sys.stdout.flush()
        os._exit(0)
    os.close(write)
    printed.append(os.fdopen(read).read().splitlines()[-1])
print("[" + ",".join(printed) + "]")
"""

OURS = {
    "advantages": {"rltf"},
    "losses": {"importance_sampling", "rltf_ppo", "rltf_cispo"},
    "agent_loops": {"rltf"},
    "trainers": {"rltf_sync", "rltf_colocate_async", "rltf_separate_async"},
    "platforms": {"cpu"},
    "replicas": {"transformers"},
    "checkpoint_engines": {"cpu"},
    "rollouts": {"transformers"},
    "fsdp2_devices": {"cpu"},
    "search_paths": {"RLTFSearchPath"},
}


def python(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def registries() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Of an interpreter without us and of one with us; they share the imports of other packages."""
    ways = [
        {"VERL_USE_EXTERNAL_PLUGINS": "none", "VERL_PLATFORM": ""},
        {"VERL_USE_EXTERNAL_PLUGINS": "auto", "VERL_PLATFORM": "cpu"},
    ]
    without, with_us = json.loads(python(BOTH.format(ways=ways, names=NAMES)))
    return without, with_us


def test_the_entry_point_imports_nothing_heavy() -> None:
    loaded = python(
        f"import rltf_verl.plugin, sys; print([m for m in {HEAVY} if m in sys.modules])"
    )
    assert loaded == "[]"


def test_switched_off_leaves_no_trace(registries) -> None:
    without_us, _ = registries
    for registry, names in OURS.items():
        assert not names & set(without_us[registry]), registry
    assert without_us["wrapped"] == []
    assert without_us["ours"] == []


def test_every_name_is_in_its_registry_and_nothing_of_verl_is_lost(registries) -> None:
    without_us, with_us = registries
    for registry, names in OURS.items():
        assert set(with_us[registry]) == set(without_us[registry]) | names, registry
    # Modules that took the functions by name got the wrapped ones too.
    assert with_us["wrapped"] == ["verl.utils.config"] * 2 + ["verl.utils.distributed"] * 2


def test_a_config_without_our_block_passes_through(monkeypatch) -> None:
    """Stock verl configs get verl's own verdict, whatever it is, and none of our checks."""
    from verl.utils.config import validate_config

    from rltf_verl.adapters.startup import checks
    from tests.support.configs import composed

    monkeypatch.delattr(checks, "check_driver")
    config = composed(
        "ppo_trainer", "data.train_batch_size=7", "actor_rollout_ref.actor.ppo_mini_batch_size=9"
    )
    before = str(config)
    assert verdict(validate_config, config) == verdict(validate_config.__wrapped__, config)
    assert str(config) == before


def verdict(validate, config) -> str:
    try:
        return repr(validate(config, use_reference_policy=False, use_critic=False))
    except Exception as error:
        return repr(error)
