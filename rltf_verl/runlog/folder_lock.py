"""A lock on a run's folder: a second run there would overwrite checkpoints and log its episodes
twice.

The lock is a file that its process creates exclusively and touches every `BEAT_S` seconds. It works
on network file systems too, where the process may run on another host.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

logger = logging.getLogger(__name__)

NAME = "rltf.lock"
BEAT_S = 15.0
OLD_S = 120.0
"""Seconds without a beat after which a process of another host counts as dead."""


class FolderInUseError(ValueError):
    """Another process holds the lock."""


class FolderLock:
    """The lock of this process on one folder.

    Args:
        folder: created if missing.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._text = json.dumps(_this_process())
        self._released = Event()

    def acquire(self) -> None:
        """Take the lock until `release` or the end of the process; from a dead process too.

        Raises:
            FolderInUseError: another run uses the folder.
            OSError: the folder cannot be written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while not (self._created() or self._taken_from_dead()):
            pass
        atexit.register(self.release)
        Thread(target=self._beat, name="folder-lock", daemon=True).start()

    def release(self) -> None:
        """Remove the lock if it is still this process's."""
        self._released.set()
        with suppress(OSError):
            if self.path.read_text("utf-8") == self._text:
                self.path.unlink()

    def _created(self) -> bool:
        try:
            file = self.path.open("x", encoding="utf-8")
        except FileExistsError:
            return False
        with file:
            file.write(self._text)
        return True

    def _taken_from_dead(self) -> bool:
        """Overwrite the lock of a dead process; False if it was released in this moment."""
        try:
            file = self.path.open("r+", encoding="utf-8")
        except FileNotFoundError:
            return False
        with file:
            with suppress(OSError):  # some network file systems have no locks of this kind
                fcntl.flock(file, fcntl.LOCK_EX)
            status = os.fstat(file.fileno())
            if not status.st_nlink:
                return False
            _require_dead(self.path, file.read(), _now_on_the_disk_of(self.path) - status.st_mtime)
            file.seek(0)
            file.truncate()
            file.write(self._text)
            return True

    def _beat(self) -> None:
        while not self._released.wait(BEAT_S):
            with suppress(OSError):  # a file system that is away for a while
                if self.path.read_text("utf-8") != self._text:
                    logger.warning(
                        "%s: another run took this folder over; stop one of the two", self.path
                    )
                    return
                os.utime(self.path)


def _require_dead(path: Path, text: str, age: float) -> None:
    holder, here = _parsed(text), _this_process()
    who = f"process {holder.get('pid', '?')} on {holder.get('host', 'an unknown host')}"
    fix = "wait for it or stop it, or set trainer.default_local_dir to another folder"
    if here["boot"] and all(holder.get(key) == here[key] for key in ("host", "boot")):
        if _start_time(int(holder["pid"])) != holder["started"]:
            return
        raise FolderInUseError(f"{path.parent}: {who} trains in this folder; {fix}")
    if age < OLD_S:
        raise FolderInUseError(
            f"{path.parent}: {who} trains in this folder, last seen {max(age, 0):.0f} s ago; {fix}"
            f" (if that process is dead: start again in {OLD_S:.0f} s, or delete {path})"
        )
    logger.warning("%s: took the folder over from %s, last seen %.0f s ago", path, who, age)


def _parsed(text: str) -> dict[str, Any]:
    """Empty if its writer was killed before it wrote."""
    with suppress(ValueError):
        holder = json.loads(text)
        if isinstance(holder, dict):
            return holder
    return {}


def _this_process() -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "boot": _boot(),
        "pid": os.getpid(),
        "started": _start_time(os.getpid()),
    }


def _boot() -> str:
    """Differs between boots and between containers, which number their processes themselves; empty
    on a system without /proc.
    """
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    return ""


def _start_time(pid: int) -> str | None:
    """When a process of this machine started, in the kernel's unit; None if it is dead."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # After the name, which is in brackets and may hold blanks: state, …, start time (field 22).
    state, *_, started = stat.rpartition(")")[2].split()[:20]
    return None if state == "Z" else started


def _now_on_the_disk_of(path: Path) -> float:
    """By the clock of the file system, which also dates the beats."""
    with tempfile.TemporaryFile(dir=path.parent) as file:
        return os.fstat(file.fileno()).st_mtime
