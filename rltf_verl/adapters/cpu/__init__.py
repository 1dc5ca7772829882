"""The CPU as a place to run verl. Importing this costs nothing."""

from __future__ import annotations

import os

ROLLOUT_NAME = "transformers"


def on_cpu_platform() -> bool:
    """Whether verl runs on the CPU."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu"
