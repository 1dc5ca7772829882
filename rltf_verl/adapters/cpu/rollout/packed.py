"""Linear layers in bf16 with their weights in the order in which the CPU multiplies them.

torch brings a bf16 weight into that order at every call, which takes longer than the product where
few sequences run: one sequence of a model with 135 M parameters is sampled 1.5 times as fast so, 16
sequences 1.2 times. It costs a second copy of the weights.
"""

from __future__ import annotations

from functools import partial

import torch

from rltf_verl.adapters.cpu.bf16 import has_bf16

ROWS = 1
"""Sequences that the order is best for."""


@torch.no_grad()
def pack(model: torch.nn.Module) -> None:
    """Pack the weights that `model` has now; again whenever they have changed."""
    if not (torch.backends.mkldnn.is_available() and has_bf16()):
        return
    for layer in model.modules():
        if type(layer) is torch.nn.Linear and layer.weight.dtype == torch.bfloat16:
            packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight, ROWS)
            # torch._inductor calls both so for frozen weights; a test fails when they change.
            layer.forward = partial(_linear, packed, layer.bias)  # type: ignore[method-assign]


def _linear(packed: torch.Tensor, bias: torch.Tensor | None, states: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(states, packed, bias, "none", [], "")
    return found
