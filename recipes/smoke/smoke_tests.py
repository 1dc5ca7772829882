"""Run every experiment of every recipe as two steps of a tiny policy on the CPU.

    python recipes/smoke/smoke_tests.py [--only PATTERN ...] [--jobs 2] [--out DIR] [--list]

A recipe joins by its layout: each `recipes/<name>/config/<experiment>.yaml` (files that begin with
`_` are parts), or, where `recipes/<name>/experiments.txt` lists TASK_METHOD, `config/paper.yaml`
with `task=TASK method=METHOD`. `config/smoke/` beside this file makes an experiment small:
`+smoke=<its environment>`, where `smoke.data` holds the options of `rltf data build`. An experiment
without the block `rltf` is one of verl's SFT trainer; `smoke.dialogues` names the experiment whose
episodes it is trained on. A judge on loopback answers at JUDGE_BASE_URL. Exits with 1 on failure.
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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import verl  # noqa: F401  # registers our search path with Hydra
from dialogues import sft_command, sft_variables, write_dialogues
from hydra import compose, initialize_config_dir
from loopback_judge import LoopbackJudge
from omegaconf import DictConfig, OmegaConf

from rltf_verl.tools.data.build import Built, build_parquet
from rltf_verl.tools.report.terminal.console import show_table

HERE = Path(__file__).resolve().parent
RECIPES = HERE.parent
POLICY = RECIPES / "demo" / "policy"
WITH_THEIR_MODEL = tuple(RECIPES / name for name in ("pretrained", "agents", "corrections", "sql"))
"""Need a pretrained model: `tests/e2e/test_pretrained_e2e.py`."""
SEARCH_PATH = "[pkg://verl.trainer.config,pkg://hydra_configs.rltf_verl,"
SEARCH_PATH += f"'file://{HERE / 'config'}']"
NUM_TRAIN, NUM_TEST = 8, 2
BEARABLE = {
    "rltf/feedback/judge/failed_share": 0.0,
    # A tiny policy that criticises itself may write nothing.
    "rltf/feedback/failed_share": 0.9,
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
class SmokeTest:
    """One experiment."""

    recipe: Path
    experiment: str
    primary: str
    """For `--config-name`."""
    choices: tuple[str, ...] = ()
    """Overrides that choose the experiment."""

    @property
    def name(self) -> str:
        return f"{self.recipe.name}/{self.experiment}"

    @cached_property
    def words(self) -> list[str]:
        """Overrides that choose the experiment and make it small."""
        config = self._composed(self.choices)
        overlay = config.rltf.env.name if "rltf" in config else "sft"
        return [*self.choices, f"hydra.searchpath={SEARCH_PATH}", f"+smoke={overlay}"]

    @cached_property
    def config(self) -> DictConfig:
        """As `main_ppo` composes it with `words`."""
        return self._composed(self.words)

    def _composed(self, overrides: Sequence[str]) -> DictConfig:
        with HYDRA, initialize_config_dir(str(self.recipe / "config"), version_base=None):
            return compose(self.primary, list(overrides))


@dataclass(frozen=True)
class Outcome:
    """What a run left."""

    seconds: float
    exit_code: int
    steps: list[dict[str, Any]]
    """Metrics of its training steps."""
    episodes_per_step: int
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
        over = [
            (key, step[key])
            for step in self.steps
            for key, most in BEARABLE.items()
            if step.get(key, 0.0) > most
        ]
        return ", ".join(f"{key}={share:.2f}" for key, share in over)

    def line(self, name: str) -> tuple[str, ...]:
        """For the table."""
        rows = sum(round(step.get(ROWS, 1.0) * self.episodes_per_step) for step in self.steps)
        right = [step["rltf/turn_1/acc"] for step in self.steps if ROWS in step]
        accuracy = f"{sum(right) / len(right):.2f}" if right else ""
        return (name, f"{self.seconds:.0f}", str(rows), accuracy, str(self.exit_code))


def find_tests(recipes: Path) -> list[SmokeTest]:
    """All experiments of all recipes, sorted."""
    return [
        test
        for config in sorted(recipes.glob("*/config"))
        if config.parent not in (HERE, *WITH_THEIR_MODEL)
        for test in _tests_of(config.parent)
    ]


def _tests_of(recipe: Path) -> list[SmokeTest]:
    listed = recipe / "experiments.txt"
    if not listed.is_file():
        names = sorted(file.stem for file in (recipe / "config").glob("[!_]*.yaml"))
        return [SmokeTest(recipe, name, name) for name in names]
    tests = []
    for name in listed.read_text("utf-8").split():
        task, _, method = name.partition("_")
        tests.append(SmokeTest(recipe, name, "paper", (f"task={task}", f"method={method}")))
    return tests


def run(test: SmokeTest, folder: Path, judge_url: str, timeout: float) -> Outcome:
    """Build its data, play it to its end in `folder`, read its metrics."""
    config = test.config
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ray_dir = tempfile.mkdtemp(prefix="rltf")  # short: Ray puts sockets in it
    inherited = {k: v for k, v in os.environ.items() if k != "JUDGE_API_KEY_ENV"}
    variables = inherited | {
        "JUDGE_BASE_URL": judge_url,
        "JUDGE_MODEL": "loopback",
        "NO_PROXY": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_TMPDIR": ray_dir,
        "RLTF_TINY_POLICY": str(POLICY),
        "VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl"),
        "VERL_PLATFORM": "cpu",
    }
    started = time.monotonic()
    try:
        command, own = _command(test, folder, variables)
        exit_code = _wait(command, folder, variables | own, timeout)
    except subprocess.CalledProcessError as error:  # no dialogues
        (folder / "log.txt").write_text(f"{error}\n{error.stdout}\n{error.stderr}")
        exit_code = error.returncode
    finally:
        shutil.rmtree(ray_dir, ignore_errors=True)
    episodes = config.data.train_batch_size * (
        config.actor_rollout_ref.rollout.n if "rltf" in config else 1
    )
    steps = _steps(folder / "metrics.jsonl")
    return Outcome(
        time.monotonic() - started, exit_code, steps, episodes, config.trainer.total_training_steps
    )


def _command(
    test: SmokeTest, folder: Path, variables: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """What to start, and its own variables."""
    common = ["--config-dir", str(test.recipe / "config"), "--config-name", test.primary]
    common += [*test.words, f"hydra.run.dir={folder / 'hydra'}"]
    if "rltf" not in test.config:
        name = test.config.smoke.dialogues
        played = SmokeTest(test.recipe, name, name).config
        train = _problems(played, folder).train
        dialogues = write_dialogues(played, train, folder, variables["JUDGE_BASE_URL"], variables)
        return sft_command(common, dialogues, folder), sft_variables(folder)
    data = _problems(test.config, folder)
    return [
        *(sys.executable, "-u", "-m", "verl.trainer.main_ppo", *common),
        f"data.train_files={data.train}",
        f"data.val_files={data.test}",
        f"trainer.default_local_dir={folder / 'checkpoints'}",
    ], {}


def _problems(config: DictConfig, folder: Path) -> Built:
    options = OmegaConf.to_container(config.smoke.data, resolve=True)
    assert isinstance(options, dict)
    files = {key: HERE / value for key, value in options.items() if isinstance(value, str)}
    options |= {key: str(path) for key, path in files.items() if path.is_file()}
    return build_parquet(config.rltf.env.name, folder / "data", 0, NUM_TRAIN, NUM_TEST, **options)


def _wait(command: list[str], folder: Path, variables: dict[str, str], timeout: float) -> int:
    """Exit status; 124 for a run that had to be ended."""
    (folder / "command.txt").write_text(" ".join(command) + "\n")
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
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
    return [
        record["data"]
        for record in map(json.loads, lines)
        if {ROWS, SFT_LOSS} & record["data"].keys()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", default=["*"], metavar="PATTERN", help="e.g. rltf/kk_sd or 'rltf/*_fm'"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("outputs/smoke"), help="logs, metrics, episodes"
    )
    parser.add_argument("--jobs", type=int, default=1, help="experiments at a time")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one experiment")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    args = parser.parse_args()
    tests = [
        t for t in find_tests(RECIPES) if any(fnmatch(t.name, pattern) for pattern in args.only)
    ]
    if not tests:
        parser.error(f"--only {' '.join(args.only)}: no such experiment; --list prints them")
    if args.list:
        print("\n".join(test.name for test in tests))
        return
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    ended = count(1)

    def play(test: SmokeTest) -> Outcome:
        outcome = run(test, args.out.resolve() / test.name, judge.url, args.timeout)
        place, result = f"[{next(ended)}/{len(tests)}]", outcome.trouble or "ok"
        print(f"{place} {test.name}: {outcome.seconds:.0f} s, {result}", flush=True)
        return outcome

    with LoopbackJudge() as judge, ThreadPoolExecutor(args.jobs) as pool:
        outcomes = dict(zip(tests, pool.map(play, tests), strict=True))
    show_table([HEADER, *(outcome.line(test.name) for test, outcome in outcomes.items())])
    failed = [test.name for test, outcome in outcomes.items() if outcome.trouble]
    if failed:
        raise SystemExit(
            f"{len(failed)} of {len(tests)} failed: {', '.join(failed)}; logs in {args.out}"
        )


if __name__ == "__main__":
    main()
