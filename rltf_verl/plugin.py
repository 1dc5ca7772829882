"""The `verl.plugins` entry point: imported by `import verl` in every process.

Arms post-import hooks and imports nothing heavy. A hook fires right after its verl module has run,
or at once when that module is already there.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import wrapt


def _search_path(module: ModuleType) -> None:
    from rltf_verl.searchpath import RLTFSearchPath

    module.Plugins.instance().register(RLTFSearchPath)


def _agent_loop(module: ModuleType) -> None:
    # The public decorator would import the loop class here, in every process that plays no episode.
    module._agent_loop_registry["rltf"] = {
        "_target_": "rltf_verl.adapters.rollout.agent_loop.RLTFAgentLoop"
    }


def _trainers(_module: ModuleType) -> None:
    # They register themselves, so that they can also be imported first: they then wait for the end
    # of this hook.
    import rltf_verl.adapters.training.trainer  # noqa: F401


CPU = "rltf_verl.adapters.cpu.hooks"

HOOKS: dict[str, str | Callable[[ModuleType], None]] = {
    "verl.plugin.platform.platform_manager": f"{CPU}:register_platform",
    "verl.workers.engine.fsdp.transformer_impl": f"{CPU}:register_engine",
    "verl.workers.rollout.replica": f"{CPU}:register_replica",
    "verl.workers.rollout.base": f"{CPU}:register_adapter",
    "verl.checkpoint_engine": f"{CPU}:register_checkpoint_engine",
    "verl.utils.distributed": f"{CPU}:patch_process_group",
    "verl.utils.fsdp_utils": "rltf_verl.adapters.compat:patch_model_copies",
    "verl.workers": f"{CPU}:patch_vllm_name",
    "vllm.model_executor.layers.utils": f"{CPU}:patch_vllm_weights",
    "verl.trainer": f"{CPU}:check_media",
    "hydra.core.plugins": _search_path,
    "verl.trainer.ppo.core_algos": "rltf_verl.adapters.training.registered:register",
    "verl.experimental.agent_loop.agent_loop": _agent_loop,
    "verl.trainer.ppo.v1": _trainers,
    "verl.utils.config": "rltf_verl.adapters.startup.hook:check_before_start",
}
"""Imported module -> hook, by its name where it lives in a module that must not be loaded early."""

for _name, _hook in HOOKS.items():
    wrapt.register_post_import_hook(_hook, _name)
