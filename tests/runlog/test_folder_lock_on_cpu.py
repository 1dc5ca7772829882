"""Two runs in one folder: the second is refused; a dead one does not block."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from rltf_verl.runlog.folder_lock import NAME, OLD_S, FolderInUseError, FolderLock

HOLD = """
import sys
from pathlib import Path
from rltf_verl.runlog.folder_lock import FolderLock
FolderLock(Path(sys.argv[1])).acquire()
print("locked", flush=True)
sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """Another process that has locked the folder and waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


def of_another_host(folder: Path, age: float) -> Path:
    lock = FolderLock(folder)
    lock.acquire()
    text = json.loads(lock.path.read_text())
    lock.path.write_text(json.dumps(text | {"host": "node7", "pid": 1234}))
    then = lock.path.stat().st_mtime - age
    os.utime(lock.path, (then, then))
    return lock.path


def test_the_second_run_is_refused_with_host_process_and_fix(tmp_path: Path) -> None:
    first = holder(tmp_path)
    with pytest.raises(FolderInUseError) as refusal:
        FolderLock(tmp_path).acquire()
    for part in (str(tmp_path), f"process {first.pid}", os.uname().nodename, "default_local_dir"):
        assert part in str(refusal.value)
    first.communicate("")
    assert not (tmp_path / NAME).exists(), "released at its end"
    FolderLock(tmp_path).acquire()


def test_a_killed_run_does_not_block_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = holder(tmp_path)
    first.send_signal(signal.SIGKILL)
    first.wait()
    lock = FolderLock(tmp_path)
    lock.acquire()
    assert caplog.messages == []
    lock.release()
    assert list(tmp_path.iterdir()) == []


def test_a_process_with_the_number_of_a_dead_one_does_not_block(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    lock.acquire()
    dead = json.loads(lock.path.read_text()) | {"started": "1", "pid": os.getppid()}
    lock.path.write_text(json.dumps(dead))
    FolderLock(tmp_path).acquire()


def test_another_host_blocks_while_its_lock_is_fresh(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = of_another_host(tmp_path, age=OLD_S / 2)
    with pytest.raises(FolderInUseError, match="process 1234 on node7"):
        FolderLock(tmp_path).acquire()
    assert json.loads(path.read_text())["host"] == "node7"
    aged = path.stat().st_mtime - OLD_S
    os.utime(path, (aged, aged))
    FolderLock(tmp_path).acquire()
    assert "node7" in caplog.text
    assert json.loads(path.read_text())["pid"] == os.getpid()


def test_a_lock_whose_writer_was_killed_before_it_wrote_ages(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()
    with pytest.raises(FolderInUseError, match="unknown host"):
        FolderLock(tmp_path).acquire()
    os.utime(tmp_path / NAME, (0, 0))
    FolderLock(tmp_path).acquire()


def test_one_of_many_takes_a_dead_lock(tmp_path: Path) -> None:
    of_another_host(tmp_path, age=2 * OLD_S)
    together, locked = threading.Barrier(8), []

    def start(k: int) -> None:
        lock = FolderLock(tmp_path)
        together.wait()
        with suppress(FolderInUseError):
            lock.acquire()
            locked.append(k)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(start, range(8)))
    assert len(locked) == 1
