"""The back end `unsafe_process`: limits, a clean environment and a scratch folder, but no walls.

A program can read what this user reads, write what this user writes, use the network and signal
this user's processes. Bounded are CPU and clock, memory per process, file size and output; what a
program starts is ended with it, unless it works at staying alive.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rltf_verl.envs.sandbox.local import ENVIRONMENT, LocalSandbox, Started, ended, input_file

SWEEPS = 100
QUIET = 3
"""Looks in a row that must find nothing: a process can change its parent while one looks."""


class ProcessSandbox(LocalSandbox):
    """Runs programs as this user."""

    bounds_processes = False

    @contextmanager
    def _started(self) -> Iterator[Started]:
        with _scratch_folder() as folder, input_file() as stdin:
            process = subprocess.Popen(
                self._command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env={**ENVIRONMENT, "HOME": folder, "TMPDIR": folder},
                cwd=folder,
                start_new_session=True,
                pass_fds=(stdin,),
            )
            with ended(Started(process, lambda: _kill(process), stdin, alone=False)) as started:
                yield started


@contextmanager
def _scratch_folder() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="rltf-code-")
    try:
        yield folder
    finally:  # shutil.rmtree cannot remove folders in folders in folders …
        subprocess.run(["rm", "-rf", "--", folder], stderr=subprocess.DEVNULL, check=False)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End all that descends from it, and it last: as long as it lives, orphans become its
    children.
    """
    quiet = 0
    for _ in range(SWEEPS):
        alive = _descendants(process.pid)
        quiet = 0 if alive else quiet + 1
        if quiet == QUIET:
            break
        for pid in alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        process.kill()


def _descendants(root: int) -> list[int]:
    """Living processes below `root`."""
    alive, frontier = [], [root]
    while frontier:
        frontier = [child for pid in frontier for child in _children(pid)]
        alive += [pid for pid in frontier if _lives(pid)]
    return alive


def _children(pid: int) -> list[int]:
    try:
        return [
            int(c)
            for t in Path(f"/proc/{pid}/task").iterdir()
            for c in (t / "children").read_text().split()
        ]
    except OSError:
        return []


def _lives(pid: int) -> bool:
    try:
        return (
            # `pid (name) state …`: a name may hold brackets itself. Z is a zombie.
            Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
            != "Z"
        )
    except OSError:
        return False
