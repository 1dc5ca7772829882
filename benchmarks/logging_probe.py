"""Loaded into every process of a run of `logging_cost.py`: how long the episode log takes there.

Each process keeps its sums in a file of its own, overwritten in place: verl's workers are killed,
they do not exit.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from pathlib import Path
from typing import Any

import wrapt

_lock = threading.Lock()
_sums: dict[str, list[float]] = {}


@wrapt.when_imported("rltf_verl.runlog.episodes")
def _arm_worker(module: Any) -> None:
    module.EpisodeLog.append = _timed(module.EpisodeLog.append, "worker")


@wrapt.when_imported("rltf_verl.adapters.metrics.row_log")
def _arm_trainer(module: Any) -> None:
    module.RowLog.write = _timed(module.RowLog.write, "trainer")
    module.RowLog._write = _timed(module.RowLog._write, "thread")


def _timed(call: Any, name: str) -> Any:
    @functools.wraps(call)
    def timed(*args: Any, **kwargs: Any) -> Any:
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            return call(*args, **kwargs)
        finally:
            _note(name, time.perf_counter() - wall, time.thread_time() - cpu)

    return timed


def _note(name: str, wall: float, cpu: float) -> None:
    with _lock:
        sums = _sums.setdefault(name, [0.0, 0.0])
        sums[0] += wall
        sums[1] += cpu
        path = Path(os.environ["RLTF_PROBE_DIR"]) / f"probe.{name}.{os.getpid()}"
        path.write_text(f"{sums[0]:.6f} {sums[1]:.6f}\n")
