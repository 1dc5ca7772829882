"""The demos: what a machine gets to train, what is said of it, and what is left: nothing."""

import json
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


@pytest.fixture
def demo(monkeypatch):
    """The language model's demo, as a module."""
    monkeypatch.syspath_prepend(str(DEMO))
    import run_lm_demo

    return run_lm_demo


SLOWER, FAST, FASTER = ({"bf16": seconds, "fp32": 0.2} for seconds in (0.11, 0.06, 0.03))
SLOW = {"bf16": 2.0, "fp32": 0.25}


@pytest.mark.parametrize(
    ("times", "memory", "cores", "asked", "precision", "batches", "steps"),
    [
        (FAST, 30e9, 2, {}, "bf16", (("grpo", "sd"), ("sft",)), 16),
        (FAST, 15e9, 2, {}, "bf16", (("grpo",), ("sd",)), 16),
        (SLOWER, 30e9, 2, {}, "bf16", (("grpo", "sd"),), 16),
        (SLOWER, 30e9, 1, {}, "bf16", (("grpo",), ("sd",)), 12),
        (FASTER, 15e9, 2, {}, "bf16", (("grpo",), ("sd",), ("sft",)), 16),
        (SLOW, 30e9, 2, {}, "fp32", (("grpo", "sd"),), 12),
        (SLOW, 15e9, 2, {}, "fp32", (("grpo",), ("sd",)), 12),
        (FAST, 30e9, 2, {"precision": "fp32"}, "fp32", (("grpo", "sd"),), 12),
        (FAST, 30e9, 2, {"steps": 2}, "bf16", (("grpo", "sd"), ("sft",)), 2),
    ],
)
def test_a_machine_gets_a_job_that_suits_it(
    demo, times, memory, cores, asked, precision, batches, steps
):
    job = demo.choose(times, memory, cores, **asked)
    assert (job.precision, job.batches, job.steps) == (precision, batches, steps)


def test_too_little_memory_is_one_line_before_anything_is_fetched(demo, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "time_layers", lambda: FAST)
    monkeypatch.setattr(demo, "free_memory", lambda: 5e9)
    monkeypatch.setattr(sys, "argv", ["demo", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match=r"11 GB .*5\.0 GB") as refused:
        demo.main()
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def trained(demo, folder: Path, second: list[float]):
    """A finished run whose episodes were so often right after feedback."""
    folder.mkdir(parents=True)
    right = "val-core/rltf/own/acc/mean@1"
    records = [{"step": 0, "data": {right: 0.0}}]
    for step, share in enumerate(second, start=1):
        data = {"rltf/turn_1/acc": 0.0, demo.SECOND: share, "rltf/session/total": 32.0}
        records.append({"step": step, "data": data})
    records[-1]["data"][right] = 0.25
    (folder / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    return demo.Run("grpo", folder, None, 0.0, 60.0)


@pytest.mark.parametrize(
    ("second", "lost"),
    [([0.9, 0.8, 0.9, 0.1, 0.0, 0.0], True), ([0.9, 0.8, 0.9, 0.8, 0.9, 0.7], False)],
)
def test_a_lost_policy_is_named_in_the_last_words(demo, tmp_path, second, lost):
    job = demo.choose(FAST, 30e9, 2)
    summary = demo.summary_of(job, [trained(demo, tmp_path / "date_grpo_0", second)])
    found = summary["methods"]["grpo"]
    assert (found["first"], found["second"]) == ([0.0, 0.25], second)
    assert (summary["precision"], summary["steps"]) == ("bf16", 16)
    words = list(demo.last_words(summary["methods"], tmp_path))
    assert any("GRPO" in line and "lost" in line for line in words) == lost
    assert "rltf view" in words[-2]


def test_the_language_models_runs_are_the_recipes(demo, tmp_path, monkeypatch):
    script = tmp_path / "pretrained.sh"
    script.write_text('#!/bin/bash\necho "$* $SEED $OUT $RAY_TMPDIR" >> "$OUT/said"\n')
    script.chmod(0o755)
    monkeypatch.setattr(demo, "SCRIPT", script)
    (tmp_path / "smollm2").mkdir()
    demo.prepare(tmp_path)
    job = demo.choose(SLOW, 30e9, 2, steps=7)
    run = demo.start(job, "sd", tmp_path, None, job.steps, tmp_path / "ray")
    assert run.process.wait(60) == 0
    started_words = [line.split() for line in (tmp_path / "said").read_text().splitlines()]
    assert [words[0] for words in started_words] == ["warm_up", "data", "train"]
    assert started_words[2][1:3] == ["sd", "trainer.total_training_steps=7"]
    assert {f"trainer.test_freq={job.test_every}", "rltf/hardware=cpu"} < set(started_words[2])
    assert started_words[2][-3:] == ["0", str(tmp_path), str(tmp_path / "ray")]
    assert run.folder == tmp_path / "date_sd_0"
