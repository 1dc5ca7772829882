"""Run every experiment of every recipe as two steps of a tiny policy on the CPU, `--jobs` at a time.

    python recipes/cpu_twins.py [--only PATTERN ...] [--jobs 2] [--out outputs/cpu_twins] [--list]

A recipe joins by its layout: `recipes/<name>/config/<experiment>.yaml` (files that begin with `_` are parts) and
`config/cpu/<overlay>.yaml`, applied as `+cpu=<overlay>`; an experiment takes the overlay whose name is the longest
beginning of its own. The overlay's block `twin.data` holds the options of `rltf data build` for the experiment's
environment, files relative to the recipe's folder. An experiment without the block `rltf` is one of verl's SFT trainer;
its `twin.dialogues` names the experiment whose sessions it is trained on. A judge on loopback answers at
JUDGE_BASE_URL. Exits with 1 if one failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import count
from pathlib import Path
from typing import Any

import verl  # noqa: F401  # registers our search path with Hydra
from hydra import compose, initialize_config_dir
from loopback_judge import LoopbackJudge
from omegaconf import DictConfig, OmegaConf
from sft_twin import sft_command, sft_variables, write_dialogues

from rltf_verl.data.build import Built, build_parquet
from rltf_verl.report.terminal.console import show_table

HERE = Path(__file__).resolve().parent
POLICY = HERE / "demo" / "policy"
NUM_TRAIN, NUM_TEST = 8, 2
BEARABLE = {
    "rltf/feedback/judge/failed_share": 0.0,
    "rltf/feedback/failed_share": 0.9,  # a tiny policy that criticises itself may have nothing to say
    "rltf/grader/error_share": 0.0,
    "rltf/grader/ungraded_share": 0.0,
}
"""Metric -> what a step may have of it."""

ROWS, SFT_LOSS = "rltf/rows/per_session", "train/loss"
"""What every step of our trainers logs, and every step of verl's SFT trainer."""

HYDRA = threading.Lock()
"""Hydra has one state per process."""

HEADER = ("experiment", "seconds", "rows", "turn 1 right", "exit")


@dataclass(frozen=True)
class Twin:
    """One experiment with its overlay."""

    recipe: Path
    experiment: str
    overlay: str

    @property
    def name(self) -> str:
        return f"{self.recipe.name}/{self.experiment}"

    def config(self) -> DictConfig:
        """As `main_ppo` composes it."""
        with HYDRA, initialize_config_dir(str(self.recipe / "config"), version_base=None):
            return compose(self.experiment, [f"+cpu={self.overlay}"])


@dataclass(frozen=True)
class Outcome:
    """What a run left."""

    seconds: float
    exit_code: int
    steps: list[dict[str, Any]]
    """Metrics of its training steps."""
    sessions_per_step: int
    """Of the SFT trainer: dialogues."""
    num_steps: int
    """Steps that it should have."""

    @property
    def trouble(self) -> str:
        """Why it counts as failed; empty if it does not."""
        if self.exit_code:
            return "see log.txt"
        if len(self.steps) != self.num_steps:
            return f"{len(self.steps)} training steps instead of {self.num_steps}"
        over = [(key, step[key]) for step in self.steps for key, most in BEARABLE.items() if step.get(key, 0.0) > most]
        return ", ".join(f"{key}={found:.2f}" for key, found in over)

    def line(self, name: str) -> tuple[str, ...]:
        """For the table."""
        rows = sum(round(step.get(ROWS, 1.0) * self.sessions_per_step) for step in self.steps)
        right = [step["rltf/turn_1/acc"] for step in self.steps if ROWS in step]
        accuracy = f"{sum(right) / len(right):.2f}" if right else ""
        return (name, f"{self.seconds:.0f}", str(rows), accuracy, str(self.exit_code))


def find_twins(recipes: Path) -> list[Twin]:
    """All experiments of all recipes that have an overlay, sorted.

    Raises:
        ValueError: a recipe has overlays, but none whose name an experiment begins with.
    """
    found = []
    for recipe in sorted(folder.parents[1] for folder in recipes.glob("*/config/cpu")):
        overlays = sorted((f.stem for f in (recipe / "config" / "cpu").glob("[!_]*.yaml")), key=len)
        for file in sorted((recipe / "config").glob("[!_]*.yaml")):
            fitting = [name for name in overlays if file.stem.startswith(name)]
            if not fitting:
                raise ValueError(f"{file}: no overlay in config/cpu begins its name; there are {', '.join(overlays)}")
            found.append(Twin(recipe, file.stem, fitting[-1]))
    return found


def run(twin: Twin, folder: Path, judge_url: str, timeout: float) -> Outcome:
    """Build its data, play it to its end in `folder`, read its metrics."""
    config = twin.config()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ray_dir = tempfile.mkdtemp(prefix="rltf")  # short: Ray puts sockets in it
    variables = {
        **{k: v for k, v in os.environ.items() if k != "JUDGE_API_KEY_ENV"}, "NO_PROXY": "127.0.0.1",
        "VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": "1", "RAY_TMPDIR": ray_dir,
        "VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl"), "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "JUDGE_BASE_URL": judge_url, "JUDGE_MODEL": "loopback", "RLTF_TINY_POLICY": str(POLICY),
    }  # fmt: skip
    started = time.monotonic()
    try:
        command, own = _command(twin, config, folder, variables)
        exit_code = _wait(command, folder, variables | own, timeout)
    except subprocess.CalledProcessError as error:  # no dialogues
        (folder / "log.txt").write_text(f"{error}\n{error.stdout}\n{error.stderr}")
        exit_code = error.returncode
    finally:
        shutil.rmtree(ray_dir, ignore_errors=True)
    sessions = config.data.train_batch_size * (config.actor_rollout_ref.rollout.n if "rltf" in config else 1)
    steps = _steps(folder / "metrics.jsonl")
    return Outcome(time.monotonic() - started, exit_code, steps, sessions, config.trainer.total_training_steps)


def _command(
    twin: Twin, config: DictConfig, folder: Path, variables: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """What to start, and its own variables."""
    common = ["--config-dir", str(twin.recipe / "config"), "--config-name", twin.experiment, f"+cpu={twin.overlay}",
              f"hydra.run.dir={folder / 'hydra'}"]  # fmt: skip
    if "rltf" not in config:
        played = replace(twin, experiment=config.twin.dialogues, overlay=config.twin.dialogues)
        train = _problems(played, played.config(), folder).train
        dialogues = write_dialogues(played.config(), train, folder, variables["JUDGE_BASE_URL"], variables)
        return sft_command(common, dialogues, folder), sft_variables(folder)
    data = _problems(twin, config, folder)
    return [
        sys.executable, "-u", "-m", "verl.trainer.main_ppo", *common, f"data.train_files={data.train}",
        f"data.val_files={data.test}", f"trainer.default_local_dir={folder / 'checkpoints'}",
    ], {}  # fmt: skip


def _problems(twin: Twin, config: DictConfig, folder: Path) -> Built:
    options = OmegaConf.to_container(config.twin.data, resolve=True)
    assert isinstance(options, dict)
    files = {key: twin.recipe / value for key, value in options.items() if isinstance(value, str)}
    options |= {key: str(path) for key, path in files.items() if path.is_file()}
    return build_parquet(config.rltf.env.name, folder / "data", 0, NUM_TRAIN, NUM_TEST, **options)


def _wait(command: list[str], folder: Path, variables: dict[str, str], timeout: float) -> int:
    """Exit status; 124 for a run that had to be ended."""
    (folder / "command.txt").write_text(" ".join(command) + "\n")
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=variables, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return 124
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it, and what is left of its group: Ray's processes are of the same one."""
    for patience, how in ((30, signal.SIGTERM), (None, signal.SIGKILL)):
        with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, how)
            process.wait(patience)


def _steps(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [record["data"] for record in map(json.loads, lines) if {ROWS, SFT_LOSS} & record["data"].keys()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN", help="e.g. rltf/kk_sd or 'rltf/*_fm'")
    parser.add_argument("--out", type=Path, default=Path("outputs/cpu_twins"), help="logs, metrics, sessions")
    parser.add_argument("--jobs", type=int, default=1, help="experiments at a time")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one experiment")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    args = parser.parse_args()
    twins = [t for t in find_twins(HERE) if any(fnmatch(t.name, pattern) for pattern in args.only)]
    if not twins:
        parser.error(f"--only {' '.join(args.only)}: no such experiment; --list prints them")
    if args.list:
        print("\n".join(twin.name for twin in twins))
        return
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    ended = count(1)

    def play(twin: Twin) -> Outcome:
        outcome = run(twin, args.out.resolve() / twin.name, judge.url, args.timeout)
        print(
            f"[{next(ended)}/{len(twins)}] {twin.name}: {outcome.seconds:.0f} s, {outcome.trouble or 'ok'}", flush=True
        )
        return outcome

    with LoopbackJudge() as judge, ThreadPoolExecutor(args.jobs) as pool:
        outcomes = dict(zip(twins, pool.map(play, twins), strict=True))
    show_table([HEADER, *(outcome.line(twin.name) for twin, outcome in outcomes.items())])
    failed = [twin.name for twin, outcome in outcomes.items() if outcome.trouble]
    if failed:
        raise SystemExit(f"{len(failed)} of {len(twins)} failed: {', '.join(failed)}; logs in {args.out}")


if __name__ == "__main__":
    main()
