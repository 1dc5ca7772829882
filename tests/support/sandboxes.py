"""Back ends under test: bubblewrap where it works on this machine, else skipped with its own
reason.
"""

import contextlib
import os
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

from rltf_verl.envs.sandbox import Backend, make_sandbox
from rltf_verl.envs.sandbox.base import Outcome, Program, Resources, Sandbox
from rltf_verl.types import Problem

LIMITS = Resources(time_s=2, total_s=20, memory_mb=256, processes=8, output_kb=64, file_mb=4)
LOCAL: tuple[Backend, ...] = ("bubblewrap", "unsafe_process")
HEADER = b"What runs inside of a sandbox"


@cache
def trouble(backend: Backend) -> str | None:
    return make_sandbox(backend, LIMITS).trouble()


def sandbox(
    backend: Backend, limits: Resources = LIMITS, max_parallel: int | None = None
) -> Sandbox:
    if reason := trouble(backend):
        pytest.skip(reason)
    return make_sandbox(backend, limits, max_parallel)


def code_problem(**fields: Any) -> Problem:
    """Of the environment `code`; without tests unless they are given."""
    data = {"statement": "", "entry": None, "starter": "", "public": [], "private": []}
    return Problem("code", 0, {**data, "solution": "", **fields}, "")


def run_once(
    backend: Backend,
    source: str,
    given: object = "",
    entry: str | None = None,
    limits: Resources = LIMITS,
) -> Outcome:
    with sandbox(backend, limits).start(Program(source, entry)) as run:
        return run.call(given)


def left_over(marker: bytes = HEADER) -> list[int]:
    """Processes whose command line holds the marker; those of a run hold the text that runs inside.

    Not those of other workers of pytest, who may be running programs at this moment.
    """
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]
    found = [pid for pid in pids if alive(pid, marker)]
    theirs = {
        process.pid
        for worker in psutil.Process().parent().children()
        if worker.pid != os.getpid()
        for process in _children(worker)
    }
    # Looked for again: what another worker's program was may have ended meanwhile.
    return [pid for pid in found if pid not in theirs and alive(pid, marker)]


def _children(worker: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return worker.children(recursive=True)
    return []


def alive(pid: int, marker: bytes = b"") -> bool:
    """Whether there is such a process, with the marker in its command line."""
    folder = Path(f"/proc/{pid}")
    try:
        state = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
        return state != "Z" and marker in (folder / "cmdline").read_bytes()
    except OSError:
        return False
