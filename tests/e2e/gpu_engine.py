"""Loaded through VERL_USE_EXTERNAL_MODULES, before the plugin: the engine of a GPU run, on the CPU.

verl's own FSDP engine takes the place of the CPU platform's, which shares prefixes between rows.
Its packed forward leaves the file packed.<strategy> in the folder RLTF_RECORD_DIR, if there is one.
"""

import os
from contextlib import nullcontext
from pathlib import Path

import wrapt


class _Device(str):
    """The CPU's name; its number, 0, where FSDP1's helpers format it as "cpu:0"."""

    def __format__(self, _spec: str) -> str:
        return "0"


@wrapt.when_imported("verl.utils.fsdp_utils")
def _number(fsdp_utils) -> None:
    fsdp_utils.get_device_id = lambda: _Device("cpu")


@wrapt.when_imported("torch.distributed.fsdp._init_utils")
def _broadcast(fsdp) -> None:
    """FSDP1 refuses to broadcast first weights from CPUs, which gloo does."""
    fsdp._check_module_states_for_sync_module_states = lambda _states: None


@wrapt.when_imported("torch.distributed.fsdp._flat_param")
def _keep(fsdp) -> None:
    """FSDP1 moves whole weights to the CPU for a state dict, then frees where they were: the same
    memory here. The state dict has copies.
    """
    fsdp.FlatParamHandle.to_cpu = lambda _handle: nullcontext()


@wrapt.when_imported("verl.workers.engine.fsdp.transformer_impl")
def _register(transformer_impl) -> None:
    engine, registry = transformer_impl.FSDPEngineWithLMHead, transformer_impl.EngineRegistry
    prepare, folder = engine.prepare_model_inputs, os.environ.get("RLTF_RECORD_DIR")

    def packed(self, micro_batch):
        inputs, args = prepare(self, micro_batch)
        if folder and inputs["attention_mask"] is None and len(inputs["input_ids"]) == 1:
            Path(folder).mkdir(parents=True, exist_ok=True)
            Path(folder, f"packed.{self.engine_config.strategy}").touch()
        return inputs, args

    engine.prepare_model_inputs = packed
    registry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")(engine)
