"""What a person sees of a real run, and how it ends: refused at the start or beside another one,
told to stop, a process killed. The other refusals: tests/adapters/startup/test_checks_on_cpu.py.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from omegaconf import OmegaConf

from rltf_verl.adapters.driver import LOCK
from rltf_verl.adapters.training.best import BEST, RECORD
from rltf_verl.runlog.files import LATEST, STAMP
from tests.e2e import runs

pytestmark = pytest.mark.e2e
LONG = [
    "trainer.total_training_steps=500",
    "trainer.total_epochs=1000",
    "trainer.save_freq=1",
    "trainer.val_before_train=true",
    "trainer.test_freq=1",
    "trainer.max_actor_ckpt_to_keep=1",
    "rltf.keep_best=val-core/rltf/binary_matrix/acc/mean@1",
]


@pytest.fixture
def run(tmp_path: Path, data: dict[str, str]) -> Iterator[runs.Run]:
    """A run that has trained two steps and saved one; killed after the test."""
    run = runs.start(tmp_path, data, LONG, recorder="")
    metrics = tmp_path / "metrics.jsonl"
    runs.wait_for(
        lambda: metrics.exists() and metrics.read_bytes().count(b"\n") >= 4, run, timeout=300
    )
    yield run
    if run.process.poll() is None:
        run.kill()


def test_a_line_a_step_a_second_run_refused_and_a_polite_end(
    run: runs.Run, tmp_path: Path, data: dict[str, str]
) -> None:
    before = len(run.log)
    assert run.log.index("\nstep 1/") < run.log.index("\nstep 2/")
    assert run.log[: run.log.index("\nstep 1/")].count("\n") < 55, run.log
    second = runs.start(tmp_path, data, LONG, recorder="")
    assert second.wait(200) == 1
    refusal = f"trainer.default_local_dir={run.checkpoints}: process {run.process.pid} on"
    assert refusal in run.log[before:]
    run.process.send_signal(signal.SIGTERM)
    assert run.wait(120) == 128 + signal.SIGTERM
    lines = run.log.splitlines()
    assert [re.sub(r"\d+\.\d+ s · .*", "…", line) for line in lines if line.startswith("step 1/")]
    assert any(re.match(r"validation at step 0 · first [\d.]+ · ", line) for line in lines)
    repeated = [line for line in lines if "target_num_threads" in line]
    assert len(repeated) <= 2, repeated  # one of each logger
    assert not [line for line in lines if "perf/throughput" in line or "\x1b" in line]
    (end,) = [line for line in lines if line.startswith("rltf: stopped by SIGTERM")]
    assert [line for line in lines if line.startswith("rltf: best checkpoint so far: step ")]
    latest = (run.checkpoints / LATEST).read_text()
    assert end.endswith(f"the same command again to resume from step {latest}")
    best = next(run.checkpoints.glob(f"{BEST}*/{RECORD}")).parent
    assert {path.name for path in best.iterdir()} >= {STAMP, "actor", "data.pt"}
    assert OmegaConf.load(run.checkpoints / "config.yaml").trainer.total_training_steps == 500
    assert "SIGTERM received at" not in run.log
    assert not (run.checkpoints / LOCK).exists()


def test_a_cpu_config_without_the_cpu_platform(tmp_path: Path, data: dict[str, str]) -> None:
    command = [sys.executable, "-m", "verl.trainer.main_ppo", "--config-name=rltf_sd"]
    command += [*runs.SETTINGS, "rltf/hardware=cpu", *(f"{k}={v}" for k, v in data.items())]
    clean = {k: v for k, v in os.environ.items() if k not in ("VERL_PLATFORM", "RAY_ADDRESS")}
    done = subprocess.run(
        command, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=200
    )
    printed = done.stdout + done.stderr
    assert done.returncode != 0, printed[-2000:]
    assert "ray init kwargs" not in printed, "it got as far as Ray"
    assert "start with VERL_PLATFORM=cpu in the environment" in printed


DIED = r"rltf: died: {} \(pid \d+\); .* resume from step \d+$"
GONE = "has died, and verl would wait without end"
"""Of a process of which verl would not notice that it is gone."""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "end"),
    [
        *(
            (name, DIED.format(name))
            for name in ("TaskRunnerV1", "WorkerDict", "TransformersServer")
        ),
        *((name, GONE) for name in ("RLTFAgentLoopWorker", "SimpleStorageUnit")),
    ],
)
def test_the_log_ends_with_the_process_that_died(run: runs.Run, name: str, end: str) -> None:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            own = process.environ().get("RLTF_RECORD_DIR") == str(run.folder / "record")
            if own and f"ray::{name}" in " ".join(process.cmdline()):
                process.kill()
    assert run.wait(200) == 1
    shown = run.log if end == GONE else run.log.rstrip().splitlines()[-1]
    assert re.search(end, shown), shown[-3000:]
