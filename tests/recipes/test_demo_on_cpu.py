"""The demo's end: however it comes, no process and no folder of Ray's is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

DEMO = Path(__file__).parents[2] / "recipes/demo"
PLAYED = """
import signal, subprocess, sys, time
from pathlib import Path
# Tests in the background inherit that it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from rich.console import Console
sys.path.insert(0, sys.argv[1])
import run_demo

def start(method, out, data, steps, ray_folder):
    (ray_folder / "ray").mkdir()
    (ray_folder / "ray" / "file").write_text("x")
    process = subprocess.Popen(["sh", "-c", sys.argv[3]], start_new_session=True)
    (out / method).mkdir(parents=True)
    (out / method / "log.txt").write_text("")
    folders.append(ray_folder)
    return run_demo.Run(method, out / method, process, time.monotonic())

def watch(runs, *arguments):
    for run, folder in zip(runs, folders, strict=True):
        print(folder, run.process.pid, flush=True)
    watched(runs, *arguments)

folders, watched = [], run_demo.watch
run_demo.start, run_demo.watch = start, watch
run_demo.play([["grpo", "sd"]], Path(sys.argv[2]), None, 1, Console(stderr=True))
"""


@pytest.mark.parametrize(
    ("runs", "sent", "code"),
    [
        pytest.param("sleep 600", signal.SIGTERM, 143, marks=pytest.mark.nightly),
        ("sleep 600", signal.SIGINT, None),
        pytest.param("exit 3", None, 1, marks=pytest.mark.nightly),
        pytest.param("exit 0", None, 0, marks=pytest.mark.nightly),
    ],
)
def test_it_leaves_nothing(runs, sent, code, tmp_path):
    demo = subprocess.Popen(
        [sys.executable, "-c", PLAYED, DEMO, tmp_path, runs],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    started = [demo.stdout.readline().split() for _ in range(2)]
    if sent is not None:
        demo.send_signal(sent)
    exit_code = demo.wait(120)
    assert code is None or exit_code == code
    for folder, pid in started:
        assert folder.startswith(str(tmp_path))
        assert not Path(folder).exists()
        assert not psutil.pid_exists(int(pid))
    assert not list(tmp_path.glob("rltf*"))


def test_a_slow_cpu_is_told_before_anything_is_fetched(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DEMO))
    import run_lm_demo

    monkeypatch.setattr(run_lm_demo, "has_fast_bf16", lambda: False)
    monkeypatch.setattr(sys, "argv", ["demo", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="make demo-tiny"):
        run_lm_demo.main()
    assert not (tmp_path / "out").exists()


def test_the_language_models_runs_are_the_recipes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DEMO))
    import run_lm_demo

    script = tmp_path / "pretrained.sh"
    script.write_text('#!/bin/bash\necho "$* $SEED $OUT $RAY_TMPDIR" >> "$OUT/said"\n')
    script.chmod(0o755)
    monkeypatch.setattr(run_lm_demo, "SCRIPT", script)
    (tmp_path / "smollm2").mkdir()
    run_lm_demo.prepare(tmp_path)
    run = run_lm_demo.start("sd", tmp_path, None, 7, tmp_path / "ray")
    assert run.process.wait(60) == 0
    started_words = [line.split() for line in (tmp_path / "said").read_text().splitlines()]
    assert [words[0] for words in started_words] == ["warm_up", "data", "train"]
    assert started_words[2][1:3] == ["sd", "trainer.total_training_steps=7"]
    assert started_words[2][-3:] == ["0", str(tmp_path), str(tmp_path / "ray")]
    assert run.folder == tmp_path / "date_sd_0"
