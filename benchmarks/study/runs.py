"""All runs of the study on a pool of workers. A finished run is a file, so a study that was stopped
goes on.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import Executor, as_completed
from pathlib import Path
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

from benchmarks.study.policy import RECIPES, Recipe, make_policy
from benchmarks.study.settings import ARMS, Run, Scale, all_runs, problems, reported_problems
from benchmarks.study.train import Trainer, train


def run_all(scale: Scale, out: Path, pool: Executor, recipe: Recipe = RECIPES["vague"]) -> None:
    """Make the policies and run what has no file yet, saying how long the rest will take."""
    missing = {run.policy: run.seed for run in all_runs(scale) if not made(out / run.policy)}
    print(f"making {len(missing)} policies (two minutes each)", flush=True)
    for future in [
        pool.submit(make_policy, out / policy, recipe, seed) for policy, seed in missing.items()
    ]:
        future.result()
    todo = [run for run in all_runs(scale) if not result_file(out, run).exists()]
    num_all = len(all_runs(scale))
    print(f"{num_all - len(todo)} of {num_all} runs are there", flush=True)
    start = time.monotonic()
    futures = {pool.submit(run_one, run, scale, out): run for run in todo}
    for done, future in enumerate(as_completed(futures), start=1):
        last = future.result()
        minutes = (time.monotonic() - start) / 60
        print(
            f"{num_all - len(todo) + done}/{num_all} {futures[future].name}: first answer right"
            f" {last['acc']:.2f}, second {last['acc_turn_2']:.2f}; about"
            f" {minutes / done * (len(todo) - done):.0f} minutes left",
            flush=True,
        )


def run_one(run: Run, scale: Scale, out: Path) -> dict[str, Any]:
    """One run in this process; writes its file and returns the last point of its curve."""
    torch.set_num_threads(1)
    disable_progress_bar()
    trainer = Trainer(
        run.config(scale), out / run.policy, problems().train, scale.steps, ARMS[run.arm].control
    )
    progress = out / "progress" / f"{run.name}.txt"
    progress.parent.mkdir(parents=True, exist_ok=True)
    with progress.open("w") as lines:
        trained = train(
            trainer, reported_problems(scale), scale.eval_every, lambda point: _say(point, lines)
        )
    write(out / "episodes" / f"{run.name}.json", trained.episodes)
    # The result last: its file says that the run is complete.
    write(result_file(out, run), {"arm": run.arm, "seed": run.seed, "curve": trained.curve})
    return trained.curve[-1]


def made(policy: Path) -> bool:
    """The policy is complete: this file is written last."""
    return (policy / "tokenizer.json").exists()


def result_file(out: Path, run: Run) -> Path:
    """Where a finished run stands."""
    return out / "runs" / f"{run.name}.json"


def _say(point: dict[str, Any], lines: Any) -> None:
    lines.write(
        f"step {point['step']} first {point['acc']} second {point['acc_turn_2']}"
        f" {point['seconds']:.0f} s\n"
    )
    lines.flush()


def write(path: Path, content: Any) -> None:
    """A JSON file that is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(content) + "\n")
    unfinished.replace(path)
