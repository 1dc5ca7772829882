"""The folder of a run: as good as its episode log, and of one run only: a second one is refused, a
dead one does not block.
"""

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

from rltf_verl.runlog.about import read_about, write_about, write_missing
from rltf_verl.runlog.files import log_folder
from rltf_verl.runlog.folder_lock import NAME, OLD_S, FolderInUseError, FolderLock
from tests.support.commands import ran, rltf
from tests.support.log_records import line, write

BLOCKS = {
    "env": {"name": "shortest_path", "options": {}},
    "episode": {"horizon": 3, "revise": "critique", "context": "fresh", "quote": "answer"},
    "feedback": {"provider": {"name": "try_again", "options": {}}, "on_error": "raise"},
    "reward": {"format_coef": 0.0},
    "seed": 3,
}
SIZES = {
    "data.train_batch_size": 4,
    "actor_rollout_ref.rollout.n": 2,
    "data.max_prompt_length": 99,
    "data.max_response_length": 16,
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """One with a validation before the first step, and checkpoints."""
    log = tmp_path / "run" / "episodes"
    write(log, [line("1", "2")] * 3, step=0, validate=True)
    write(log, [line("1", "42"), line("2", "42")], step=1)
    write(tmp_path / "run" / "global_step_1" / "copy", [line("1", "42")], step=1)
    write(log / "superseded", [line("1", "42")], step=2)
    return tmp_path / "run"


def test_its_log_is_found(run: Path) -> None:
    assert log_folder(run) == log_folder(run / "episodes") == run / "episodes"


def test_two_logs_a_file_and_nothing(run: Path, tmp_path: Path) -> None:
    write(run / "other", [line("1", "42")])
    with pytest.raises(ValueError, match="holds 2 episode logs"):
        log_folder(run)
    with pytest.raises(
        ValueError, match=r"no such folder; name a run's trainer\.default_local_dir"
    ):
        log_folder(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="a file, not a folder"):
        log_folder(tmp_path / "file")
    empty = tmp_path / "begun"
    (empty / "episodes").mkdir(parents=True)
    assert log_folder(empty) == empty / "episodes"


@pytest.mark.parametrize(
    "words", ["inspect", "log tail", "log stats", "log grep so", "judge audit", "view -o page.html"]
)
def test_commands_take_it(run: Path, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.chdir(run.parent)
    ran(*words.split(), run)


def test_a_probe_reads_the_first_training_step_and_the_runs_own_limits(run: Path) -> None:
    unknown = rltf("probe", "--log", run, "--json", "env.name=shortest_path")
    assert json.loads(unknown.stdout)["measured"]["sessions"] == 2
    assert "does not hold the run's limits" in unknown.stderr
    write_about(run / "episodes", BLOCKS, SIZES, ["the hint"])
    known = rltf("probe", "--log", run, "--json")
    assert known.stderr == ""
    probe = json.loads(known.stdout)
    assert probe["measured"]["sessions"] == 2
    assert list(probe["run"].values()) == list(SIZES.values())
    assert (probe["feedback"]["provider"], probe["feedback"]["revise"]) == ("try_again", "critique")


def test_no_secret_is_written_about_a_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", "sk-Zu7pQ92mVx41")
    own = {"name": "./mine.py:Mine", "options": {"header": ["Bearer sk-Zu7pQ92mVx41"]}}
    write_about(run / "episodes", BLOCKS | {"feedback": {"provider": own}}, SIZES, [])
    assert "Zu7pQ92mVx41" not in (run / "episodes/run.json").read_text()
    assert read_about(run / "episodes")["rltf"]["feedback"]["provider"]["name"] == own["name"]


def test_episodes_that_the_disk_refused_are_counted(run: Path) -> None:
    """In place: the disk may be full."""
    assert "missing" not in rltf("log", "stats", run).stdout
    write_about(run / "episodes", BLOCKS, SIZES, [])
    size = (run / "episodes/run.json").stat().st_size
    write_missing(run / "episodes", 1234)
    assert (run / "episodes/run.json").stat().st_size == size
    assert "1234 more episodes are missing" in rltf("log", "stats", run).stdout
    assert read_about(run / "episodes")["sizes"] == SIZES
    write_about(run / "episodes", BLOCKS, SIZES, [])  # a resume
    write_missing(run / "episodes", 6)
    assert "1240 more episodes are missing" in rltf("log", "stats", run).stdout


def test_what_a_log_says_of_its_run_may_be_damaged(run: Path) -> None:
    log = run / "episodes"
    assert read_about(log) == {}
    (log / "run.json").write_text("[")
    assert read_about(log) == {}
    (log / "run.json").write_text("[]")
    assert read_about(log) == {}


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
