"""verl's registries, of this interpreter or of others."""

import json
import os
import subprocess
import sys
from pathlib import Path

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

# Modules that took the functions by name got the wrapped ones too.
WRAPPED = ["verl.utils.config"] * 2 + ["verl.utils.distributed"] * 2

BOTH = """
import json, os, sys, warnings
import aiohttp, datasets, ray, tensordict, torch._dynamo, transformers

printed = []
for way in {ways}:
    read, write = os.pipe()
    if os.fork() == 0:
        os.dup2(write, 1)
        os.environ.update(way)
        warnings.simplefilter("ignore")
        from tests.support.registries import registries

        print(json.dumps(registries()))
        sys.stdout.flush()
        os._exit(0)
    os.close(write)
    printed.append(os.fdopen(read).read().splitlines()[-1])
print("[" + ",".join(printed) + "]")
"""


def registries() -> dict[str, list[str]]:
    """What is registered here, after verl is imported as a trainer imports it."""
    import verl  # noqa: F401  # first, as in a trainer: it loads the plugin
    from hydra.core.plugins import Plugins
    from hydra.plugins.search_path_plugin import SearchPathPlugin
    from verl import checkpoint_engine
    from verl.experimental.agent_loop import agent_loop
    from verl.plugin.platform.platform_manager import PlatformRegistry
    from verl.trainer import main_ppo
    from verl.trainer.ppo import core_algos
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
    from verl.utils import config, distributed
    from verl.workers import engine_workers
    from verl.workers.engine.base import EngineRegistry
    from verl.workers.engine.fsdp import transformer_impl  # noqa: F401  # registers itself
    from verl.workers.rollout import base, replica

    return {
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
        "wrapped": sorted(
            f.__module__
            for f in (
                main_ppo.validate_config,
                config.validate_config,
                distributed.initialize_global_process_group_ray,
                engine_workers.initialize_global_process_group_ray,
            )
            if hasattr(f, "__wrapped__")
        ),
        "ours": sorted(m for m in sys.modules if m.startswith("rltf_verl")),
    }


def of_others(*ways: dict[str, str]) -> list[dict[str, list[str]]]:
    """Of interpreters with these environments; they share the imports of other packages."""
    return json.loads(python(BOTH.format(ways=ways)))


def python(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1]
