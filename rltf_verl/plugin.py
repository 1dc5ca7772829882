"""The `verl.plugins` entry point: imported by `import verl` in every process.

Arms post-import hooks and imports nothing heavy. A hook fires right after its verl module has run,
or at once when that module is already there.
"""

from __future__ import annotations

from types import ModuleType

import wrapt


@wrapt.when_imported("verl.plugin.platform.platform_manager")
def _platform(module: ModuleType) -> None:
    from rltf_verl.adapters import cpu

    cpu.register_platform(module)


@wrapt.when_imported("verl.workers.engine.fsdp.transformer_impl")
def _engine(module: ModuleType) -> None:
    from rltf_verl.adapters import cpu

    cpu.register_engine(module)


@wrapt.when_imported("verl.utils.distributed")
def _process_group(module: ModuleType) -> None:
    from rltf_verl.adapters import cpu

    cpu.patch_process_group(module)


@wrapt.when_imported("verl.utils.fsdp_utils")
def _model_copies(module: ModuleType) -> None:
    from rltf_verl.adapters import cpu

    cpu.patch_model_copies(module)


@wrapt.when_imported("verl.trainer")
def _media(module: ModuleType) -> None:
    from rltf_verl.adapters import cpu

    cpu.check_media(module)


@wrapt.when_imported("verl.workers")
def _vllm_name(module: ModuleType) -> None:
    from rltf_verl.adapters import cpu

    cpu.patch_vllm_name(module)


@wrapt.when_imported("vllm.model_executor.layers.utils")
def _vllm_weights(module: ModuleType) -> None:
    from rltf_verl.adapters import cpu

    cpu.patch_vllm_weights(module)


@wrapt.when_imported("verl.checkpoint_engine")
def _checkpoint_engine(module: ModuleType) -> None:
    from rltf_verl.adapters import cpu

    cpu.register_checkpoint_engine(module)


@wrapt.when_imported("verl.workers.rollout.replica")
def _replica(module: ModuleType) -> None:
    from rltf_verl.adapters import cpu

    cpu.register_replica(module)


@wrapt.when_imported("verl.workers.rollout.base")
def _adapter(module: ModuleType) -> None:
    from rltf_verl.adapters import cpu

    cpu.register_adapter(module)


@wrapt.when_imported("hydra.core.plugins")
def _search_path(module: ModuleType) -> None:
    from rltf_verl.searchpath import RLTFSearchPath

    module.Plugins.instance().register(RLTFSearchPath)


@wrapt.when_imported("verl.trainer.ppo.core_algos")
def _algorithms(module: ModuleType) -> None:
    from rltf_verl.adapters.training.registered import register

    register(module)


@wrapt.when_imported("verl.experimental.agent_loop.agent_loop")
def _agent_loop(module: ModuleType) -> None:
    # The public decorator would import the loop class here, in every process that plays no episode.
    module._agent_loop_registry["rltf"] = {
        "_target_": "rltf_verl.adapters.rollout.agent_loop.RLTFAgentLoop"
    }


@wrapt.when_imported("verl.trainer.ppo.v1")
def _trainers(module: ModuleType) -> None:
    # They register themselves, so that they can also be imported first: they then wait for the end
    # of this hook.
    import rltf_verl.adapters.training.async_trainers
    import rltf_verl.adapters.training.trainer  # noqa: F401


@wrapt.when_imported("verl.utils.config")
def _checks(module: ModuleType) -> None:
    from rltf_verl.adapters.startup.hook import check_before_start

    check_before_start(module)
