"""The driver's part: a run's folders are its own (a second run is refused, a dead one does not
block, and what lies in the lock's place is no danger), and its end is named.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray
from omegaconf import OmegaConf

from rltf_verl.adapters import driver
from rltf_verl.config import ConfigError


@pytest.fixture
def config(tmp_path):
    return OmegaConf.create(
        {
            "trainer": {"default_local_dir": str(tmp_path / "run"), "resume_mode": "auto"},
            "rltf": {"episode_log": {"dir": str(tmp_path / "run" / "episodes")}},
        }
    )


OF_ANOTHER_HOST = "filelock/2\npid=12\nhost=node7\nmode=lease\ntoken=0\nduration=60.0\n"
"""Its lock, with another bound on silence: nothing waits."""


@pytest.mark.parametrize(
    ("key", "at"),
    [("trainer.default_local_dir", "run"), ("rltf.episode_log.dir", "elsewhere")],
)
def test_a_folder_in_use_is_refused_by_its_key(config, tmp_path, key, at):
    config.rltf.episode_log.dir = str(tmp_path / "elsewhere")
    (tmp_path / at).mkdir()
    (tmp_path / at / driver.LOCK).write_text(OF_ANOTHER_HOST)
    with pytest.raises(ConfigError, match=f"^{key}={tmp_path / at}: process 12 on node7"):
        driver.lock_folders(config)


def test_a_log_inside_the_checkpoints_needs_no_lock_and_none_may_be_off(config, tmp_path):
    driver.lock_folders(config)
    assert [p.name for p in (tmp_path / "run").rglob("*")] == [driver.LOCK]
    config.trainer.default_local_dir, config.rltf.episode_log.dir = str(tmp_path / "b"), None
    driver.lock_folders(config)


def test_how_to_resume_names_the_last_whole_checkpoint(config, tmp_path):
    assert "step 0" in driver.how_to_resume(config)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / driver.LATEST).write_text("40")
    config.trainer.resume_mode = "disable"
    assert "trainer.resume_mode=auto" in driver.how_to_resume(config)


def test_an_error_ends_in_one_line(monkeypatch):
    monkeypatch.setattr(driver, "dead_processes", list)
    assert driver.cause_of(ValueError("a grader\n  broke\n")) == "failed: ValueError: broke"
    monkeypatch.setattr(driver, "dead_processes", lambda: ["WorkerDict (pid 7)"])
    assert driver.cause_of(RuntimeError("empty batch")).startswith("died: WorkerDict (pid 7);")


def test_a_finished_run_ends_with_0_and_touches_nothing(config, monkeypatch, capsys):
    monkeypatch.setattr(driver, "finished", lambda _: "done: step 8 of 8")
    monkeypatch.setattr(driver, "end_process", sys.exit)
    with pytest.raises(SystemExit, match=r"^0$"):
        driver.begin_run(config)
    assert capsys.readouterr().err == "rltf: done: step 8 of 8\n"
    assert not Path(config.trainer.default_local_dir).exists()


@pytest.fixture
def patched(config, monkeypatch):
    """`report_end` over a Ray of functions; the trainer saves step 12 while Ray is shut down."""
    handlers = {each: signal.getsignal(each) for each in driver.ENDING}
    (Path(config.trainer.default_local_dir)).mkdir()

    def save() -> None:
        (Path(config.trainer.default_local_dir) / driver.LATEST).write_text("12")

    def patch(init=dict, get=dict):
        for name, value in {"init": init, "get": get, "shutdown": save}.items():
            monkeypatch.setattr(ray, name, value)
        driver.report_end(config)

    yield patch
    for each, handler in handlers.items():
        signal.signal(each, handler)


@pytest.mark.parametrize(
    ("number", "line", "during"),
    [
        (signal.SIGTERM, "stopped by SIGTERM", "get"),
        (signal.SIGINT, "stopped by Ctrl-C", "get"),
        (signal.SIGINT, "stopped by Ctrl-C", "init"),
    ],
)
def test_a_signal_ends_the_run_and_names_the_last_step_that_was_saved(
    patched, capsys, number, line, during
):
    def wait() -> None:
        os.kill(os.getpid(), number)
        time.sleep(60)

    patched(**{during: wait})
    with pytest.raises(SystemExit, match=f"^{128 + number}$"):
        getattr(ray, during)()
    (shown,) = capsys.readouterr().err.splitlines()
    assert shown.startswith(f"rltf: {line};")
    assert shown.endswith("from step 12")


def test_ray_that_does_not_start_is_one_line_and_one_that_does_names_its_files(patched, capsys):
    def refuse() -> None:
        raise ConnectionError("no cluster\n  at that address")

    patched(init=refuse)
    with pytest.raises(SystemExit, match=r"^rltf: .*no cluster at that address$"):
        ray.init()

    context = SimpleNamespace(address_info={"session_dir": "/tmp/ray/session_1"})
    patched(init=lambda: context)
    ray.init()
    assert "/tmp/ray/session_1/logs" in capsys.readouterr().err


KEY = "trainer.default_local_dir"
HOLD = """
import os, signal, sys
from filelock import SoftFileLease
with SoftFileLease(sys.argv[1], lease_duration=float(sys.argv[2]), heartbeat_interval=0.2):
    os.kill(os.getpid(), signal.SIGKILL)
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
    assert f"pid={os.getpid()}\n" in (folder / driver.LOCK).read_text()


def locked_by(folder: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """A process that locks the folder, forks a child that ends, and ends."""
    command = [sys.executable, "-c", OWN.format(before=before), str(folder)]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_killed_run_does_not_block_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "LEASE_S", 120.0)  # not by its age: it is taken at once
    command = [sys.executable, "-c", HOLD, str(tmp_path / driver.LOCK), str(driver.LEASE_S)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    lock(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [driver.LOCK]


def test_an_empty_lock_is_of_no_run_unless_one_touches_it(tmp_path: Path) -> None:
    path = tmp_path / driver.LOCK
    path.touch()
    driver._delete_empty(path)
    assert path.exists()
    os.utime(path, (1, 1))
    lock(tmp_path)


def test_the_end_of_a_forked_child_leaves_the_lock(tmp_path: Path) -> None:
    ended = locked_by(tmp_path)
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
    assert not (tmp_path / driver.LOCK).is_symlink()
    assert mine.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_a_full_disk_and_a_folder_in_the_locks_place_are_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / driver.LOCK).mkdir()
    driver._lock(KEY, tmp_path)
    assert f"{KEY}={tmp_path}: not locked" in caplog.text
    (tmp_path / "full").mkdir()
    no_space = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
"""
    ended = locked_by(tmp_path / "full", no_space)
    assert "not locked" in ended.stderr
    assert list((tmp_path / "full").iterdir()) == []
