"""bf16 on a CPU: whether it has the units, and linear layers with packed weights."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from omegaconf import DictConfig

from rltf_verl.findings import Finding

FLAGS = {"amx_bf16", "avx512_bf16", "bf16"}
"""Flags of /proc/cpuinfo; the last is ARM's."""

ROWS = 1
"""Sequences that the order of packed weights is best for."""


def has_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """True if the CPU multiplies matrices in bf16: without units for it, fp32 is faster."""
    if not cpuinfo.is_file():
        return platform.system() == "Darwin" and platform.machine() == "arm64"
    # `flags : …` on x86, `Features : …` on ARM.
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo.read_text(), re.MULTILINE)
    return flags is not None and not FLAGS.isdisjoint(flags[1].split())


def slow_settings(config: DictConfig) -> Iterator[Finding]:
    """Settings that this CPU computes several times slower than in fp32.

    Args:
        config: the whole trainer config.
    """
    role = config.actor_rollout_ref
    mixed = role.actor.fsdp_config.get("mixed_precision") or {}
    asked = {
        "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype": mixed.get(
            "param_dtype", "bf16"
        ),
        "actor_rollout_ref.rollout.dtype": role.rollout.dtype,
    }
    for key, value in asked.items():
        if str(value) in ("bf16", "bfloat16") and not has_bf16():
            why = "this CPU has no bf16 units (AMX-BF16 or AVX512-BF16), so fp32 is several times"
            fix = "use rltf/hardware=cpu, which computes in fp32"
            yield Finding(key, value, f"{why} faster", fix, "warning")


@torch.no_grad()
def pack(model: torch.nn.Module) -> None:
    """Pack the bf16 weights that `model` has now; again whenever they have changed.

    torch brings a bf16 weight into the CPU's order at every call, which takes longer than the
    product where few sequences run: one sequence of a model with 135 M parameters is sampled 1.5
    times as fast with packed weights, 16 sequences 1.2 times. It costs a second copy of them.
    """
    if not (torch.backends.mkldnn.is_available() and has_bf16()):
        return
    for layer in model.modules():
        if type(layer) is torch.nn.Linear and layer.weight.dtype == torch.bfloat16:
            packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight, ROWS)
            # torch._inductor calls both so for frozen weights; a test fails when they change.
            layer.forward = partial(_linear, packed, layer.bias)  # type: ignore[method-assign]


def _linear(packed: torch.Tensor, bias: torch.Tensor | None, states: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(states, packed, bias, "none", [], "")
    return out
