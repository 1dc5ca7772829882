"""Let verl's FSDP engine run on the CPU: torch's FSDP2 works there, verl only never registered
it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

BACKENDS = ("fsdp", "fsdp2")


def register(transformer_impl: ModuleType) -> None:
    """Register the language-model engine for the CPU, once.

    Args:
        transformer_impl: `verl.workers.engine.fsdp.transformer_impl`, just imported.
    """
    registry: Any = transformer_impl.EngineRegistry
    known = registry._engines.get("language_model", {})
    missing = [backend for backend in BACKENDS if "cpu" not in known.get(backend, {})]
    if missing:
        from rltf_verl.adapters.cpu.actor.engine import CPUEngine  # reads the module above

        registry.register(model_type="language_model", backend=missing, device="cpu")(CPUEngine)
