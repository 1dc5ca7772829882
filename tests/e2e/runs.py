"""Real `python -m verl.trainer.main_ppo` runs of the tiny policy, as child processes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.tools.data.build import build_parquet

ROOT = Path(__file__).parents[2]
POLICY = ROOT / "recipes" / "demo" / "policy"
LEARNING_RATE = 0.3
RESPONSE_LENGTH = 20

SETTINGS = [
    f"actor_rollout_ref.model.path={POLICY}",
    "rltf.episode.revise=compact_guide",
    "rltf.episode.quote=none",
    "data.max_prompt_length=64",
    f"data.max_response_length={RESPONSE_LENGTH}",
    "data.train_batch_size=12",
    "actor_rollout_ref.rollout.n=3",
    "trainer.logger=[file]",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
    "trainer.max_actor_ckpt_to_keep=null",
]

MODE = "trainer.v1.trainer_mode=rltf_recorded_"
"""Of `recorder`; a mode of verl follows."""

FLAKY = [
    "rltf/feedback=correctness",
    "rltf.feedback.provider=flaky",
    "rltf.feedback.guard.action=none",
    "rltf.feedback.acknowledge_leaks=true",
]
"""Feedback of `recorder` that is often unavailable."""

PLAIN_DESCENT = [
    "actor_rollout_ref.actor.optim.optimizer=SGD",
    f"actor_rollout_ref.actor.optim.lr={LEARNING_RATE}",
    "actor_rollout_ref.actor.optim.weight_decay=0",
    "actor_rollout_ref.actor.optim.clip_grad=1e9",
    "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
]
"""Neither clipped nor scaled: the step of the weights *is* the gradient."""

RECORDED = [
    f"{MODE}sync",
    *FLAKY,
    "rltf.episode.horizon=3",
    "rltf.episode.stop_when_solved_train=false",
    "rltf.distill.weight=0.5",
    "rltf.feedback_modeling.weight=0.02",
    "rltf.feedback_modeling.critic=compact",
    "rltf.imitate.weight=0.3",
    *PLAIN_DESCENT,
]


OTHER_FEEDBACK = (
    "self_critique",
    "dual_critique",
    "group_critique",
    "release/dual_critique",
    "ufo",
    "guided",
    "rl2f",
)
"""Presets whose feedback is not the verifier's. Of the others' the tiny policy knows level full
only.
"""


@dataclass
class Run:
    """One run, in a folder of its own."""

    folder: Path
    process: subprocess.Popen[bytes]
    ray_dir: str

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def episodes(self) -> Path:
        return self.checkpoints / "episodes"

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text(errors="replace")

    def metrics(self) -> list[dict[str, Any]]:
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def played(self, step: int) -> bool:
        """Whether a training episode of a step stands whole in the log: a worker makes a step's
        file, empty, just before it writes into it.
        """
        return bool(read_episodes(self.episodes, step, ("train",), growing=True))

    def training_steps(self, num: int) -> list[dict[str, Any]]:
        """Metrics of its training steps, `num` of them."""
        steps = [m["data"] for m in self.metrics() if "actor/loss" in m["data"]]
        assert len(steps) == num
        return steps

    def wait(self, timeout: float) -> int:
        """Exit status. Kills a run that takes longer, so that a hang is a failure and not a
        hang.
        """
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            return -9
        finally:
            shutil.rmtree(self.ray_dir, ignore_errors=True)

    def finished(self, timeout: float) -> Run:
        """The run after its end, which is a good one."""
        assert self.wait(timeout) == 0, self.log[-3000:]
        return self

    def kill(self) -> None:
        """SIGKILL for the driver and every process it started, all at once."""
        root = psutil.Process(self.process.pid)
        family = [root, *root.children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family[1:], timeout=20)
        self.process.wait(20)


def build_data(folder: Path) -> dict[str, str]:
    """3x3 problems; returns the overrides that name them."""
    paths = build_parquet(
        "binary_matrix",
        folder,
        seed=0,
        num_train=240,
        num_test=8,
        n_min=3,
        n_max=3,
        style="compact",
    )
    return {"data.train_files": str(paths.train), "data.val_files": str(paths.test)}


def start(
    folder: Path,
    data: dict[str, str],
    overrides: list[str],
    method: str = "sd",
    recorder: str = "recorder",
    env: str | None = None,
    hardware: str = "cpu",
) -> Run:
    """Start a run; its output goes to log.txt.

    `recorder` names modules of this folder, loaded into every process. `env` is the environment of
    the data; None: 3x3 matrices as lines of digits, of `build_data`. `hardware` is the group of
    `rltf/hardware`.
    """
    command = [
        sys.executable,
        "-u",
        "-m",
        "verl.trainer.main_ppo",
        "--config-name=rltf",
        *words(data, overrides, method, env, hardware),
        *folders(folder),
        *overrides,
    ]
    return launch(folder, command, recorder)


def words(
    data: dict[str, str],
    overrides: list[str],
    method: str = "sd",
    env: str | None = None,
    hardware: str = "cpu",
) -> list[str]:
    """What stands before `overrides` on the command line of `start`, but for its folders."""
    own = method in OTHER_FEEDBACK or any(
        word.startswith(("rltf/feedback=", "rltf.feedback.l")) for word in overrides
    )
    return [
        f"rltf/method={method}",
        *SETTINGS,
        *(["rltf.env.style=compact"] if env is None else [f"rltf/env={env}"]),
        *([] if own else ["rltf/feedback=verifier_full"]),
        f"rltf/hardware={hardware}",
        *(f"{k}={v}" for k, v in data.items()),
    ]


def folders(folder: Path) -> list[str]:
    """Overrides that keep what a run writes in its folder."""
    return [
        f"trainer.default_local_dir={folder / 'checkpoints'}",
        f"hydra.run.dir={folder / 'hydra'}",
    ]


def launch(folder: Path, command: list[str], recorder: str = "recorder") -> Run:
    """Start a command in a folder, with a Ray of its own; its output goes to log.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    ray_dir = tempfile.mkdtemp(prefix="rltf")  # short: Ray puts sockets in it
    variables = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "VERL_PLATFORM": "cpu",
        "RAY_TMPDIR": ray_dir,
        "OMP_NUM_THREADS": "1",
        "VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl"),
        "RLTF_RECORD_DIR": str(folder / "record"),
        "VERL_USE_EXTERNAL_MODULES": recorder,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(ROOT)]),
    }
    log = (folder / "log.txt").open("ab")
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=variables,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    return Run(folder, process, ray_dir)


def wait_for(condition: Any, run: Run, timeout: float) -> None:
    """Poll until `condition()`; fails with the run's log when it ends first."""
    deadline = time.monotonic() + timeout
    while not condition():
        if run.process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(
                f"the run ended or took too long before it got there:\n{run.log[-3000:]}"
            )
        time.sleep(0.1)
