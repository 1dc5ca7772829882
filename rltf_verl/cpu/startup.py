"""What the start of a run asks of the CPU platform (`adapters.platform.cpu_startup`).

`prepare` comes before torch is loaded: Ray's processes start while the driver imports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig

from rltf_verl.cpu.processes import prepare as prepare
from rltf_verl.findings import Finding


def check_media() -> None:
    """Raise ImportError for packages that break verl's imports."""
    from rltf_verl.cpu.hooks import check_media

    check_media()


def trouble_of_config(config: DictConfig) -> str | None:
    """Why the run's settings cannot work on this CPU; None if they can."""
    from rltf_verl.cpu import vllm

    return vllm.trouble_of(config.actor_rollout_ref.rollout)


def warnings_of(config: DictConfig) -> Iterator[Finding]:
    """Settings that work on this CPU and may not be meant."""
    from rltf_verl.cpu.bf16 import slow_settings

    return slow_settings(config)


def trouble_of_model(text: Any) -> str | None:
    """Why the rollout cannot sample from a model of this (text) config; None if it can."""
    from rltf_verl.cpu.actor import attention

    return attention.trouble_of(text)
