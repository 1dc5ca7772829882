"""Weights and LoRA adapters of the served model, by the names under which verl sends them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel
from verl.workers.rollout.utils import ensure_async_iterator

NamedTensors = Iterable[tuple[str, torch.Tensor]]
Bucket = list[tuple[str, torch.Tensor]]
Wire = list[tuple[str, np.ndarray, torch.dtype, torch.Size]]
"""A bucket as bytes: Ray copies an array once, and pickles a tensor byte by byte."""

Weights = Iterable[tuple[str, torch.Tensor]] | AsyncIterator[tuple[str, torch.Tensor]]
"""As verl's workers hand them out, full or sharded."""

WRAPPED = ".base_layer"
"""What peft puts into the name of a weight that has an adapter; verl adds and drops it as vLLM
wants it.
"""

PEFT_PREFIX = "base_model.model."
"""What verl's adapter names begin with: they come from a `PeftModel` around the model."""


async def buckets(
    weights: Weights, limit_bytes: int, dtype: torch.dtype | None = None
) -> AsyncIterator[Bucket]:
    """Group named tensors, as `dtype`, into lists of about `limit_bytes`. Every rank must come
    here: shards are gathered.
    """
    bucket: Bucket = []
    size = 0
    async for name, tensor in ensure_async_iterator(weights):
        full = (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach()
        full = full.to(dtype) if dtype and full.is_floating_point() else full
        # A tensor above the limit has a bucket of its own.
        if bucket and size + full.nbytes > limit_bytes:
            yield bucket
            bucket, size = [], 0
        bucket.append((name, full))
        size += full.nbytes
    if bucket:
        yield bucket


def packed(bucket: Bucket) -> Wire:
    """The bytes of each tensor."""
    return [
        (
            name,
            # As bytes, since numpy has no bfloat16.
            tensor.contiguous().reshape(-1).view(torch.uint8).cpu().numpy(),
            tensor.dtype,
            tensor.shape,
        )
        for name, tensor in bucket
    ]


def unpacked(wire: Wire) -> Bucket:
    """Tensors of their own: Ray hands out read-only views of its shared memory."""
    return [
        (name, torch.from_numpy(array.copy()).view(dtype).reshape(shape))
        for name, array, dtype, shape in wire
    ]


@torch.no_grad()
def load_weights(model: PreTrainedModel, named_tensors: NamedTensors) -> None:
    """Copy full weights into the model by name; adapters stay as they are."""
    # A tied weight has two names, and either may come.
    weights = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers())
    targets = {name.replace(WRAPPED, ""): weight for name, weight in weights.items()}
    for name, tensor in named_tensors:
        target = targets.get(name.replace(WRAPPED, ""))
        if target is None:
            raise KeyError(f"the rollout model has no weight called {name!r}")
        target.copy_(tensor)


@torch.no_grad()
def load_adapter(
    model: PreTrainedModel, named_tensors: NamedTensors, peft_config: Mapping[str, Any]
) -> None:
    """Copy a LoRA adapter into the model, which gets its adapter layers with the first one.

    It is not merged into the weights, so that rollout and actor compute the
    same numbers.
    """
    from peft import LoraConfig, inject_adapter_in_model, set_peft_model_state_dict

    if not hasattr(model, "peft_config"):
        inject_adapter_in_model(LoraConfig(**peft_config), model)
        model.eval()
    adapter = {name.removeprefix(PEFT_PREFIX): tensor for name, tensor in named_tensors}
    result: Any = set_peft_model_state_dict(model, adapter)
    unknown = result.unexpected_keys
    if unknown:
        raise KeyError(f"the rollout model has no adapter weight called {unknown[0]!r}")
