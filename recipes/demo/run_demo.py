"""The demo: one tiny policy trained with GRPO and with RLTF-SD in the real verl trainer on the CPU.

    python recipes/demo/run_demo.py [--out outputs/demo_tiny] [--steps 85] [--one-at-a-time]

Builds the data, starts both runs side by side, shows their progress, and writes summary.json,
report.html, report.png.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from report import write_report
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from rltf_verl.runlog.health import ACC
from rltf_verl.tools.data.build import build_parquet

HERE = Path(__file__).resolve().parent
METHODS = ("grpo", "sd")
PROBLEMS_PER_STEP, EPISODES_PER_PROBLEM = 24, 2
SECOND = "rltf/turn_2/standing"
FIRST_TURN = re.compile(r"val-core/.*/acc/mean@1")

SETTINGS = [
    "rltf/hardware=cpu",
    f"actor_rollout_ref.model.path={HERE / 'policy'}",
    "rltf.env.style=compact",
    "rltf/feedback=verifier_full",
    "rltf.episode.revise=compact_guide",
    "data.max_prompt_length=64",
    "data.max_response_length=20",
    f"data.train_batch_size={PROBLEMS_PER_STEP}",
    f"actor_rollout_ref.rollout.n={EPISODES_PER_PROBLEM}",
    "actor_rollout_ref.actor.optim.lr=3e-4",
    "trainer.logger=[file]",
    "trainer.test_freq=17",
    "trainer.save_freq=-1",
    "trainer.resume_mode=disable",
    "trainer.project_name=rltf_demo",
]
"""What both runs share. Only the method differs, and the weight of its distillation rows."""

METHOD_SETTINGS = {"grpo": [], "sd": ["rltf.distill.weight=1.0"]}


@dataclass
class Run:
    """One training run as a child process."""

    method: str
    folder: Path
    process: subprocess.Popen[bytes]
    started: float
    seconds: float | None = None

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Records that verl's file logger has written so far."""
        path = self.folder / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def held_out(self) -> list[tuple[int, float]]:
        """(step, share of first answers that are right) of each validation so far."""
        return [
            (record["step"], value)
            for record in self.metrics
            for key, value in record["data"].items()
            if FIRST_TURN.fullmatch(key)
        ]

    def poll(self) -> int | None:
        """Exit status, or None while it runs."""
        code = self.process.poll()
        if code is not None and self.seconds is None:
            self.seconds = time.monotonic() - self.started
        return code


Start: TypeAlias = Callable[[str, Path, Any, int, Path], Run]
"""Starts the run of (method, folder of all, data, steps), with Ray's files in the last folder."""


def start(method: str, out: Path, data: Any, steps: int, ray_folder: Path) -> Run:
    """Start verl with `--config-name=rltf_<method>`, with Ray's files in `ray_folder`."""
    folder = out / method
    command = [
        sys.executable,
        "-u",
        "-m",
        "verl.trainer.main_ppo",
        f"--config-name=rltf_{method}",
        *SETTINGS,
        *METHOD_SETTINGS[method],
        f"data.train_files={data.train}",
        f"data.val_files={data.test}",
        f"trainer.total_training_steps={steps}",
        f"trainer.experiment_name={method}",
        f"trainer.default_local_dir={folder / 'checkpoints'}",
        f"hydra.run.dir={folder / 'hydra'}",
    ]
    return launch(method, folder, command, ray_folder)


def launch(
    method: str, folder: Path, command: Sequence[str], ray_folder: Path, **variables: str
) -> Run:
    """A run of its own, which writes to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    env = {
        **os.environ,
        "VERL_PLATFORM": "cpu",
        # Two runs share the cores; more threads make a model this small slower.
        "OMP_NUM_THREADS": "1",
        "RAY_TMPDIR": str(ray_folder),  # a cluster of its own
        "VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl"),
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        **variables,
    }
    (folder / "command.txt").write_text(" ".join(command) + "\n")
    log = (folder / "log.txt").open("wb")
    process = subprocess.Popen(
        command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
    )
    return Run(method, folder, process, time.monotonic())


def watch(runs: list[Run], steps: int, console: Console) -> None:
    """Show progress until all runs have ended.

    Raises:
        SystemExit: one failed; with the end of its log.
    """
    columns = (
        TextColumn("{task.description:<5}"),
        BarColumn(8),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        TextColumn("{task.fields[now]}"),
    )
    # The speed of all steps so far; by default that of 30 s, in which there may be no step.
    with Progress(*columns, console=console, speed_estimate_period=3600) as progress:
        tasks = {
            run.method: progress.add_task(
                run.method, total=steps, now="starting verl (about a minute)"
            )
            for run in runs
        }
        shown: dict[str, int] = {}
        while True:
            for run in runs:
                done, now = _state(run)
                progress.update(tasks[run.method], completed=done, now=now)
                if not console.is_terminal and 4 * done // steps > shown.get(run.method, -1):
                    shown[run.method] = 4 * done // steps
                    left = progress.tasks[tasks[run.method]].time_remaining
                    until = "" if left is None else f"{left / 60:.0f} min left  "
                    line = f"{run.method:>5} step {done:3d}/{steps}  {until}{now}"
                    console.print(line, soft_wrap=True)
            codes = [run.poll() for run in runs]
            if any(codes):
                failed = next(run for run, code in zip(runs, codes, strict=True) if code)
                raise SystemExit(_failure(failed))
            if all(code is not None for code in codes):
                return
            time.sleep(1)


def _state(run: Run) -> tuple[int, str]:
    """(steps done, what to say)."""
    records = run.metrics
    if not records:
        return 0, "starting verl (about a minute)"
    train = [r["data"] for r in records if ACC in r["data"]]
    shown = "".join(f"held out {share:.0%}" for _, share in run.held_out[-1:])
    if train:
        first, second = (train[-1].get(name, 0.0) for name in (ACC, SECOND))
        shown += f" · training {first:.0%}, second {second:.0%}"
    return records[-1]["step"], shown


def _failure(run: Run) -> str:
    tail = (run.folder / "log.txt").read_text(errors="replace").splitlines()[-25:]
    return "\n".join(
        [*tail, "", f"the {run.method} run failed; its whole log is {run.folder / 'log.txt'}"]
    )


def play(
    batches: Sequence[Sequence[str]],
    out: Path,
    data: Any,
    steps: int,
    console: Console,
    start_one: Start | None = None,
) -> list[Run]:
    """All runs, those of a batch at the same time. No process and no file of Ray's is left,
    however it ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    runs: list[Run] = []
    console.print("Right answers: first ones held out and in training, then second ones.")
    with ExitStack() as folders:
        for batch in batches:
            for method in batch:
                ray_folder = Path(tempfile.mkdtemp(prefix="rltf"))  # short: Ray puts sockets in it
                folders.callback(shutil.rmtree, ray_folder, ignore_errors=True)
                folders.callback(stop, runs)  # before the folder goes
                runs.append((start_one or start)(method, out, data, steps, ray_folder))
            watch(runs, steps, console)
    return runs


def stop(runs: list[Run]) -> None:
    """End what is still running, Ray's processes with it."""
    for run in runs:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGTERM)
            try:
                run.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(run.process.pid, signal.SIGKILL)
                run.process.wait()


def summary_of(run: Run, steps: int) -> dict[str, float]:
    """What summary.json says of one run."""
    return {
        "acc_start": run.held_out[0][1],
        "acc_end": run.held_out[-1][1],
        "rollouts": steps * PROBLEMS_PER_STEP * EPISODES_PER_PROBLEM,
        "seconds": round(run.seconds or 0.0, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("outputs/demo_tiny"))
    parser.add_argument("--steps", type=int, default=85)
    parser.add_argument(
        "--one-at-a-time", action="store_true", help="half the memory (4 GB), nearly twice the time"
    )
    args = parser.parse_args()
    out, console = args.out.resolve(), Console()
    data = build_parquet(
        "binary_matrix",
        out / "data",
        seed=0,
        num_train=2000,
        num_test=100,
        n_min=3,
        n_max=3,
        style="compact",
    )
    console.print(
        f"Training one tiny policy twice, {args.steps} steps of {PROBLEMS_PER_STEP} problems x "
        f"{EPISODES_PER_PROBLEM} episodes; logs in {out}"
    )
    batches = [[m] for m in METHODS] if args.one_at_a_time else [list(METHODS)]
    runs = play(batches, out, data, args.steps, console)
    summary = {run.method: summary_of(run, args.steps) for run in runs}
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    write_report(out, summary, {run.method: run.metrics for run in runs}, console)


if __name__ == "__main__":
    main()
