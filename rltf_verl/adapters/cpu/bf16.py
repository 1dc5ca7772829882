"""Whether this CPU computes in bf16: without units for it, bf16 is slower than fp32."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from omegaconf import DictConfig

FLAGS = {"amx_bf16", "avx512_bf16", "bf16"}
"""Of /proc/cpuinfo; the last is ARM's."""


def has_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the CPU multiplies matrices in bf16."""
    if not cpuinfo.is_file():
        return platform.system() == "Darwin" and platform.machine() == "arm64"
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo.read_text(), re.MULTILINE)
    return found is not None and not FLAGS.isdisjoint(found[1].split())


def trouble_of(config: DictConfig) -> str | None:
    """Why this CPU cannot compute as the config says, in one line; None if it can.

    Args:
        config: the whole trainer config.
    """
    role = config.actor_rollout_ref
    asked = {
        "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype": (
            (role.actor.fsdp_config.get("mixed_precision") or {}).get("param_dtype", "bf16")
        ),
        "actor_rollout_ref.rollout.dtype": role.rollout.dtype,
    }
    for key, value in asked.items():
        if str(value) in ("bf16", "bfloat16") and not has_bf16():
            return (
                f"{key}={value}: this CPU has no bf16 units (AMX-BF16 or AVX512-BF16); use"
                " rltf/hardware=cpu, which computes in fp32"
            )
    return None
