"""The CPU platform (`rltf_verl.cpu`) as the plugin sees it: a run on a GPU never imports it."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

ROLLOUT_NAME = "transformers"
"""The CPU platform's rollout engine."""


def on_cpu_platform() -> bool:
    """Whether verl runs on the CPU."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu"


def cpu_startup() -> ModuleType | None:
    """`rltf_verl.cpu.startup`; None where verl does not run on the CPU."""
    return importlib.import_module("rltf_verl.cpu.startup") if on_cpu_platform() else None
