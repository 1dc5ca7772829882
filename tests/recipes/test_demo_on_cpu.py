"""The demos: what a machine gets to train, what is said of it, and what is left: nothing; their
arms pass the checks, and grades are shares.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from rltf_verl.adapters.startup.checks import checked_parts
from tests.recipes.composing import RECIPES, program, rltf_of_words
from tests.support.configs import composed

DEMO = RECIPES / "demo"
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
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Name of a program of the demo -> its module; what it imported is forgotten after the test."""
    monkeypatch.syspath_prepend(str(DEMO))
    yield lambda name: program(f"demo/{name}.py")
    for name in ("make_policy", "run_demo", "report"):
        sys.modules.pop(name, None)


SLOWER, FAST, FASTER = ({"bf16": seconds, "fp32": 30.0} for seconds in (12.6, 6.9, 3.4))
SLOW = {"bf16": 230.0, "fp32": 37.5}
GPU = {"fp16": 4.0, "fp32": 6.0}


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
        (GPU, 90e9, 1, {}, "fp16", (("grpo",), ("sd",), ("sft",)), 16),
    ],
)
def test_a_machine_gets_a_job_that_suits_it(
    load, times, memory, cores, asked, precision, batches, steps
):
    job = load("run_lm_demo").choose(times, memory, cores, **asked)
    assert (job.precision, job.batches, job.steps) == (precision, batches, steps)


def test_too_little_memory_is_one_line_before_anything_is_fetched(load, tmp_path, monkeypatch):
    demo = load("run_lm_demo")
    monkeypatch.setattr(demo, "time_steps", lambda device: FAST)
    monkeypatch.setattr(demo, "free_memory", lambda: 5e9)
    monkeypatch.setattr(sys, "argv", ["demo", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match=r"11 GB .*5\.0 GB") as refused:
        demo.main()
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_the_settings_of_the_demo_pass_the_checks(load: Callable[[str], Any]) -> None:
    demo = load("run_demo")
    for method, own in demo.METHOD_SETTINGS.items():
        checked_parts(composed(f"rltf_{method}", *demo.SETTINGS, *own))


def test_each_teacher_passes_the_checks(load: Callable[[str], Any]) -> None:
    teachers = load("teachers")
    for arm, words in teachers.ARMS.items():
        rltf = rltf_of_words("rltf/env=knights_knaves", "rltf/feedback=verifier", *words)
        assert rltf.episode.horizon == 1, arm
        assert rltf.teacher.reads_other_problems == arm.endswith(teachers.CONTROL)


def test_each_arm_of_graded_rewards_passes_the_checks(load: Callable[[str], Any]) -> None:
    baselines = {
        arm: rltf_of_words("rltf/env=binary_matrix", "rltf/feedback=verifier", *words).distill
        for arm, words in load("graded").ARMS.items()
    }
    sd = {arm: own.baseline for arm, own in baselines.items() if own.enabled}
    assert sd == {f"sd {name}": name for name in ("first_turn", "second_turn", "rejection")}


def test_each_arm_of_matrices_passes_the_checks(load: Callable[[str], Any]) -> None:
    matrices = load("matrices")
    for arm in matrices.ARMS:
        rltf = rltf_of_words(*matrices.words_of(arm))
        once, silent = arm.startswith(("grpo", "gold")), arm.startswith(("gold", "raft"))
        assert (rltf.episode.horizon == 1, rltf.attempt.weight == 0) == (once, silent), arm
    assert matrices.table(matrices.results()) in (matrices.HERE / "README.md").read_text("utf-8")
