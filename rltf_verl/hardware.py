"""The platform of a run. Code for the CPU only is behind `cpu_services`, so that a run on a GPU
never imports it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType

load_cpu_services: Callable[[], ModuleType] | None = None
"""Imports `rltf_verl.cpu.services`; set by `plugin`, which `import verl` loads."""


def on_cpu_platform() -> bool:
    """True if verl runs on the CPU."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu"


def cpu_services() -> ModuleType | None:
    """`rltf_verl.cpu.services`; None where verl does not run on the CPU."""
    return load_cpu_services() if load_cpu_services and on_cpu_platform() else None
