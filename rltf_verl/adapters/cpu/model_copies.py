"""Copies of the actor's weights that are copies on the CPU too.

verl 0.9.1 (`verl/utils/fsdp_utils.py:fsdp2_sharded_save_to_cpu`) keeps the weights of π_old with
`.cpu()`, which copies from a device and returns the very same tensor on a CPU: restoring π_old
would then change nothing, and `separate_async` with several updates per synchronisation would take
the current policy for the old one. A test shows that verl's function still does so.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

PATCHED = "fsdp2_sharded_save_to_cpu"


def patch(fsdp_utils: ModuleType) -> None:
    """Make `fsdp2_sharded_save_to_cpu` return tensors of its own. Idempotent."""
    original = getattr(fsdp_utils, PATCHED)
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def with_copies(model: Any) -> Any:
        shards, spec = original(model)
        return {name: (shard.clone(), layout) for name, (shard, layout) in shards.items()}, spec

    setattr(fsdp_utils, PATCHED, with_copies)
