"""The driver's part: the folders of a run are its own, and its end is named."""

import os
import signal
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


def of_another_host(folder: Path) -> None:
    """Its lock, with another bound on silence: nothing waits."""
    folder.mkdir(parents=True)
    (folder / driver.LOCK).write_text(
        "filelock/2\npid=12\nhost=node7\nmode=lease\ntoken=0\nduration=1.0\n"
    )


@pytest.mark.parametrize(
    ("key", "at"),
    [("trainer.default_local_dir", "run"), ("rltf.episode_log.dir", "elsewhere")],
)
def test_a_folder_in_use_is_refused_by_its_key(config, tmp_path, key, at):
    config.rltf.episode_log.dir = str(tmp_path / "elsewhere")
    of_another_host(tmp_path / at)
    with pytest.raises(ConfigError, match=f"^{key}={tmp_path / at}: process 12 on node7"):
        driver.lock_folders(config)


def test_a_log_inside_the_checkpoints_needs_no_lock_and_none_may_be_off(config, tmp_path):
    driver.lock_folders(config)
    assert [p.name for p in (tmp_path / "run").rglob("*")] == [driver.LOCK]
    config.trainer.default_local_dir, config.rltf.episode_log.dir = str(tmp_path / "b"), None
    driver.lock_folders(config)


def test_a_folder_that_cannot_be_written_is_a_warning(config, tmp_path, caplog):
    (tmp_path / "run").touch()
    driver.lock_folders(config)
    assert f"trainer.default_local_dir={tmp_path / 'run'}: not locked" in caplog.text


def test_how_to_resume_names_the_last_whole_checkpoint(config, tmp_path):
    assert "step 0" in driver.how_to_resume(config)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / driver.LATEST).write_text("40")
    assert driver.how_to_resume(config).endswith("to resume from step 40")
    config.trainer.resume_mode = "disable"
    assert "trainer.resume_mode=auto" in driver.how_to_resume(config)


def test_an_error_ends_in_one_line(monkeypatch):
    monkeypatch.setattr(driver, "dead_processes", list)
    failed = driver.cause_of(ValueError("rltf.env: a grader\n  broke\n"))
    assert failed == "failed: ValueError: broke"
    monkeypatch.setattr(driver, "dead_processes", lambda: ["WorkerDict (pid 7)"])
    assert driver.cause_of(RuntimeError("empty batch")).startswith("died: WorkerDict (pid 7);")


def test_a_finished_run_ends_with_0_and_touches_nothing(config, monkeypatch, capsys):
    monkeypatch.setattr(driver, "finished", lambda _: "done: step 8 of 8")
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
