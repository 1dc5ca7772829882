"""A run's folder is its own: a second run is refused, a dead one does not block, and what lies in
the lock's place is no danger.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rltf_verl.adapters import driver
from rltf_verl.config import ConfigError

KEY = "trainer.default_local_dir"
HOLD = """
import sys
from filelock import SoftFileLease
lease = SoftFileLease(sys.argv[1], lease_duration=float(sys.argv[2]), heartbeat_interval=0.2)
with lease:
    print("locked", flush=True)
    sys.stdin.read()
"""
"""As `driver` does it, without its imports."""
OWN = """
import os, sys
from pathlib import Path
from rltf_verl.adapters import driver
{before}
driver._lock("key", Path(sys.argv[1]))
if os.fork():
    os.wait()
    print((Path(sys.argv[1]) / driver.LOCK).exists())
"""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second without a sign of life is death."""
    monkeypatch.setattr(driver, "LEASE_S", 1.0)
    monkeypatch.setattr(driver, "BEAT_S", 0.2)


def lock(folder: Path) -> None:
    driver._lock(KEY, folder)


def holder(folder: Path) -> subprocess.Popen[str]:
    """Another process that has locked the folder and waits."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder / driver.LOCK), str(driver.LEASE_S)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "locked\n"
    return process


def run(folder: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """A process that locks the folder, forks a child that ends, and ends."""
    script = OWN.format(before=before)
    command = [sys.executable, "-c", script, str(folder)]
    return subprocess.run(command, capture_output=True, text=True)


def held_here(folder: Path) -> bool:
    return f"pid={os.getpid()}\n" in (folder / driver.LOCK).read_text()


def test_the_second_run_is_refused_with_host_process_and_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "LEASE_S", 120.0)
    first = holder(tmp_path)
    with pytest.raises(ConfigError) as refusal:
        lock(tmp_path)
    for part in (f"{KEY}={tmp_path}", f"process {first.pid} on {os.uname().nodename}", "delete"):
        assert part in str(refusal.value)
    first.communicate("")
    assert not (tmp_path / driver.LOCK).exists(), "released at its end"
    lock(tmp_path)


def test_a_killed_run_does_not_block_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "LEASE_S", 120.0)  # not by its age: it is taken at once
    first = holder(tmp_path)
    first.send_signal(signal.SIGKILL)
    first.wait()
    lock(tmp_path)
    assert held_here(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [driver.LOCK]


def test_the_end_of_a_forked_child_leaves_the_lock(tmp_path: Path) -> None:
    ended = run(tmp_path)
    assert ended.stdout == "True\n"
    assert not (tmp_path / driver.LOCK).exists()


@pytest.mark.parametrize("target", ["nowhere", "mine.txt"])
def test_a_link_is_replaced_and_its_file_stays(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "LEASE_S", 60.0)  # filelock waits two for its writer
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    os.utime(mine, (1, 1))
    (tmp_path / driver.LOCK).symlink_to(tmp_path / target)
    lock(tmp_path)
    assert held_here(tmp_path)
    assert not (tmp_path / driver.LOCK).is_symlink()
    assert mine.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_a_full_disk_and_a_folder_in_the_locks_place_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / driver.LOCK).mkdir()
    lock(tmp_path)
    assert f"{KEY}={tmp_path}: not locked" in caplog.text
    (tmp_path / "full").mkdir()
    no_space = "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    ignored = "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    ended = run(tmp_path / "full", f"import resource, signal; {ignored}; {no_space}")
    assert "not locked" in ended.stderr
    assert list((tmp_path / "full").iterdir()) == []
