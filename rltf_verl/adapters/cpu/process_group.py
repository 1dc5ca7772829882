"""A process group that torch accepts on the CPU.

verl 0.9.1 (`verl/utils/distributed.py`) asks for the backend `"cpu:gloo,<device>:<backend>"`. With the device `cpu`
torch refuses the string: "Duplicate device type cpu". The function takes the backend as an argument, so it is wrapped
to pass plain `gloo` instead. A test reads verl's source and fails when the reason for this patch is gone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType

PATCHED = "initialize_global_process_group_ray"
BACKEND = "gloo"


def patch(distributed: ModuleType) -> None:
    """Make `initialize_global_process_group_ray` default to gloo. Idempotent."""
    original: Callable[..., None] = getattr(distributed, PATCHED)
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def with_gloo(timeout_second: int | None = None, backend: str | None = None) -> None:
        original(timeout_second=timeout_second, backend=backend or BACKEND)

    setattr(distributed, PATCHED, with_gloo)
