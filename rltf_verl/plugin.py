"""The `verl.plugins` entry point: imported by `import verl` in every process.

Arms post-import hooks and imports nothing heavy. A hook fires right after its verl module has run,
or at once when that module is already there.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import wrapt

from rltf_verl import hardware


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


def _on_cpu(name: str) -> Callable[[ModuleType], None]:
    """A hook of `rltf_verl.cpu.hooks`; elsewhere it does nothing and imports nothing."""

    def hook(module: ModuleType) -> None:
        if hardware.on_cpu_platform():
            from rltf_verl.cpu import hooks

            getattr(hooks, name)(module)

    return hook


def _load_cpu_services() -> ModuleType:
    from rltf_verl.cpu import services

    return services


HOOKS: dict[str, str | Callable[[ModuleType], None]] = {
    "verl.plugin.platform.platform_manager": _on_cpu("register_platform"),
    "verl.workers.engine.fsdp.transformer_impl": _on_cpu("register_engine"),
    "verl.workers.rollout.replica": "rltf_verl.sampler.hooks:register_replica",
    "verl.workers.rollout.base": "rltf_verl.sampler.hooks:register_adapter",
    "verl.checkpoint_engine": _on_cpu("register_checkpoint_engine"),
    "verl.utils.distributed": _on_cpu("patch_process_group"),
    "verl.utils.fsdp_utils": "rltf_verl.adapters.compat:patch_model_copies",
    "verl.utils.torch_functional": "rltf_verl.adapters.compat:patch_log_probs",
    "verl.workers": _on_cpu("patch_vllm_name"),
    "vllm.model_executor.layers.utils": _on_cpu("patch_vllm_weights"),
    "verl.trainer": _on_cpu("check_media"),
    "hydra.core.plugins": _search_path,
    "verl.trainer.ppo.core_algos": "rltf_verl.adapters.registered:register",
    "verl.experimental.agent_loop.agent_loop": _agent_loop,
    "verl.trainer.ppo.v1": _trainers,
    "verl.utils.config": "rltf_verl.adapters.hook:check_before_start",
}
"""Imported module -> hook, by its name where it lives in a module that must not be loaded early."""

hardware.load_cpu_services = _load_cpu_services
for _name, _hook in HOOKS.items():
    wrapt.register_post_import_hook(_hook, _name)
