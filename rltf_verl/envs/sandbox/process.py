"""The back end `unsafe_process`: limits, a clean environment and a scratch folder, but no walls.

A program can read what this user reads, write what this user writes, use the network and signal this user's processes.
Bounded are CPU and clock, memory per process, file size and output; what a program starts is ended with it, unless
it works at staying alive.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rltf_verl.envs.sandbox.local import ENVIRONMENT, LocalSandbox, Started, ended

SWEEPS = 50


class ProcessSandbox(LocalSandbox):
    """Runs programs as this user."""

    bounds_processes = False

    @contextmanager
    def _started(self) -> Iterator[Started]:
        with _scratch_folder() as folder:
            process = subprocess.Popen(
                self._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                env={**ENVIRONMENT, "HOME": folder, "TMPDIR": folder}, cwd=folder, start_new_session=True,
            )  # fmt: skip
            with ended(Started(process, lambda: _kill(process), alone=False)) as started:
                yield started


@contextmanager
def _scratch_folder() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="rltf-code-")
    try:
        yield folder
    finally:  # shutil.rmtree cannot remove folders in folders in folders …
        subprocess.run(["rm", "-rf", "--", folder], stderr=subprocess.DEVNULL, check=False)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End all that descends from it, and it last: as long as it lives, orphans become its children."""
    for _ in range(SWEEPS):
        found = _descendants(process.pid)
        if not found:
            break
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        process.kill()


def _descendants(root: int) -> list[int]:
    parents = dict(p for p in map(_parent, Path("/proc").glob("[0-9]*")) if p is not None)
    found: list[int] = []
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found += frontier
    return found


def _parent(folder: Path) -> tuple[int, int] | None:
    """(process, its parent); None for the dead."""
    try:
        fields = (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else (int(folder.name), int(fields[1]))
