"""Services of the CPU platform for a run (`hardware.cpu_services`).

`prepare` comes before torch is loaded: Ray's processes start while the driver imports it.
"""

from __future__ import annotations

from collections.abc import Iterator

from omegaconf import DictConfig
from transformers import PreTrainedModel

from rltf_verl.cpu.processes import prepare as prepare
from rltf_verl.cpu.vllm import check_media as check_media
from rltf_verl.cpu.vllm import trouble_of as trouble_of
from rltf_verl.findings import Finding


def warnings_of(config: DictConfig) -> Iterator[Finding]:
    """Settings that work on this CPU and may not be meant."""
    from rltf_verl.cpu.bf16 import slow_settings

    return slow_settings(config)


def prepare_model(model: PreTrainedModel) -> None:
    """Let a model sample fast; again whenever its weights have changed."""
    from rltf_verl.cpu.actor import attention
    from rltf_verl.cpu.bf16 import pack

    if attention.is_pluggable(model):
        attention.use(model)
    pack(model)
