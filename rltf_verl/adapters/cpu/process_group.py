"""Process groups that torch accepts on the CPU.

verl 0.9.1 (`verl/utils/distributed.py`) asks for the backend `"cpu:gloo,<device>:<backend>"`. With
the device `cpu` torch refuses the string: "Duplicate device type cpu". The function of Ray's
workers takes the backend as an argument, so it is wrapped to pass plain `gloo`; the one of
`torchrun`'s processes (the SFT trainer) takes none, so it is replaced by the first. A test reads
verl's source and fails when the reason for this patch is gone.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import ModuleType

OF_RAY = "initialize_global_process_group_ray"
OF_TORCHRUN = "initialize_global_process_group"
BACKEND = "gloo"


def patch(distributed: ModuleType) -> None:
    """Make both functions build groups with gloo. Idempotent."""
    of_ray: Callable[..., None] = getattr(distributed, OF_RAY)
    if hasattr(of_ray, "__wrapped__"):
        return

    @functools.wraps(of_ray)
    def with_gloo(timeout_second: int | None = None, backend: str | None = None) -> None:
        of_ray(timeout_second=timeout_second, backend=backend or BACKEND)

    @functools.wraps(getattr(distributed, OF_TORCHRUN))
    def from_the_environment(timeout_second: int = 36000) -> tuple[int, int, int]:
        with_gloo(timeout_second)
        return int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

    setattr(distributed, OF_RAY, with_gloo)
    setattr(distributed, OF_TORCHRUN, from_the_environment)
