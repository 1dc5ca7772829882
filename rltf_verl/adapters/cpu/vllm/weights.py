"""Weights of vLLM's CPU back end that can be replaced.

vLLM 0.28 (`vllm/model_executor/layers/utils.py`) packs every linear layer's weight for its CPU
kernel after loading and then drops the original. verl loads new weights into those parameters at
each step and fails ("'Parameter' object has no attribute 'weight_loader'"). Here the originals
stay; verl has vLLM pack again at the end of each load (`process_weights_after_loading` in
`verl/workers/rollout/vllm_rollout/utils.py`). A test reads both sources.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

PATCHED = "dispatch_cpu_unquantized_gemm"


def patch(layer_utils: ModuleType) -> None:
    """Make `dispatch_cpu_unquantized_gemm` keep the weights. Idempotent."""
    original = getattr(layer_utils, PATCHED)
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def keeping(layer: Any, remove_weight: bool) -> None:
        original(layer, remove_weight=False)

    setattr(layer_utils, PATCHED, keeping)
