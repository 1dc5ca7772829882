"""verl's platform interface for a machine without an accelerator. Chosen by `VERL_PLATFORM=cpu` and
by nothing else.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase

NAME = "cpu"
NO_OPS = (
    "set_device",
    "ipc_collect",
    "reset_peak_memory_stats",
    "manual_seed",
    "manual_seed_all",
)
VLLM_VARIABLES = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GB; vLLM would take half of the memory
    # OMP_NUM_THREADS threads; bound ones leave a core to vLLM's scheduler
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "TORCHDYNAMO_DISABLE": "1",  # compiling for 12 to 30 s at the first generation
}
MALLOC_OPTIONS = {-8: 1, -3: 2**25, -1: -1}
"""M_ARENA_MAX: one; M_MMAP_THRESHOLD: the largest there is; M_TRIM_THRESHOLD: never (malloc.h)."""
ZEROS = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved")


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Replace an accelerator call that has no meaning on a CPU."""


def keep_freed() -> None:
    """Have this process use again what it has freed, up to tensors of 32 MB.

    glibc maps each of them again, and the system clears every page: a tenth to a third of the time
    of a forward and backward pass of a model with 135 M parameters. Larger ones, the logits of a
    vocabulary, go back at once: between smaller ones they would leave holes that nothing else fits.
    The threads that exist later share one heap, or each would keep its own.
    """
    # `None`: the symbols of this process itself.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc's own
    if mallopt is not None:
        for parameter, value in MALLOC_OPTIONS.items():
            mallopt(parameter, value)


def give_back() -> None:
    """Return freed memory to the system.

    glibc keeps what lies between pieces in use: after twenty steps of a model with 135 M parameters
    4.5 of the actor's 8.7 GB, and 1.8 of the sampler's 5.8. verl asks for it once per step.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's own
    if trim is not None:
        trim(0)


def _build_device_module() -> ModuleType:
    """Return `torch.cpu` extended by the functions of `torch.cuda` that verl calls."""
    module = ModuleType("rltf_verl.cpu.device")
    public = {name: value for name, value in vars(torch.cpu).items() if not name.startswith("_")}
    vars(module).update(
        {
            **public,
            **dict.fromkeys(NO_OPS, _nothing),
            **dict.fromkeys(ZEROS, lambda *_: 0),
            "empty_cache": give_back,
            "mem_get_info": lambda *_: (0, 0),
            "get_rng_state": lambda *_: torch.get_rng_state(),
            "set_rng_state": lambda state, *_: torch.set_rng_state(state),
            "get_device_name": lambda *_: NAME,
            "get_device_properties": lambda *_: SimpleNamespace(name=NAME, total_memory=0),
        }
    )
    return module


class CPUPlatform(PlatformBase):
    """One logical accelerator per Ray `GPU` resource, all of them the same CPU."""

    device_name = vendor_name = NAME
    device_module = _build_device_module()

    def is_available(self) -> bool:
        """Return True: a CPU is always there (verl asks this only after the platform was
        chosen).
        """
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Return False: auto-detection must not pick the CPU on the GPU-less head node of a GPU
        cluster.
        """
        return False

    def current_device(self) -> str:  # type: ignore[override]
        """Return a device name, not an index: verl passes it to `.to(...)`, where 0 would mean
        `cuda:0`.
        """
        return NAME

    def device_count(self) -> int:
        """Return 1."""
        return 1

    # verl seeds torch's CPU generator itself.
    set_device = synchronize = manual_seed = manual_seed_all = staticmethod(_nothing)
    set_allocator_settings = profiler_start = profiler_stop = cudart = staticmethod(_nothing)

    def empty_cache(self) -> None:
        """Return freed memory to the system."""
        give_back()

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        """Return no capability."""
        return None, None

    def communication_backend_name(self) -> str:
        """Return gloo."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """Return the variable that Ray sets for its logical `GPU` resource."""
        return "CUDA_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        """Return `GPU`: verl's pools count no other built-in resource. Ray gets their (logical)
        number.
        """
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """Return nothing to set."""
        return []

    def rollout_env_vars(self) -> dict[str, str]:
        """Return what verl's vLLM rollout needs on the CPU; the environment takes precedence."""
        return {name: os.environ.get(name, value) for name, value in VLLM_VARIABLES.items()}

    def is_ipc_supported(self) -> bool:
        """Return False: there is no device memory to share."""
        return False

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        """Do nothing around the block."""
        yield
