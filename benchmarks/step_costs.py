"""Where the demo's step and its start-up go: seconds per process, beside one plain process.

    python benchmarks/step_costs.py [--methods sd grpo_single] [--steps 16] [--repeats 1]
    python benchmarks/step_costs.py --methods sd --busy 1     # with a neighbour that never rests

Runs the demo's training, one method after the other, and reads the CPU clock of each of its
processes at every line of metrics. Wall time on a machine with other work says little; CPU seconds
say whose work a step is. The floor is the same computation in one plain PyTorch process: sampling
with `generate`, log-probs, one update, with as many rows and tokens.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from trainer_runs import (
    STEPS_ONLY,
    TOKENIZER,
    Tick,
    end,
    followed,
    save_problems,
    start,
    write_numbers,
)
from transformers import AutoModelForCausalLM

PROBLEMS, EPISODES, WARM_UP = 24, 2, 4

SETTINGS = [
    *STEPS_ONLY,
    "rltf/hardware=cpu",
    f"actor_rollout_ref.model.path={TOKENIZER}",
    "rltf.env.style=compact",
    "rltf.episode.revise=compact_guide",
    "data.max_prompt_length=64",
    "data.max_response_length=20",
    f"data.train_batch_size={PROBLEMS}",
    f"actor_rollout_ref.rollout.n={EPISODES}",
    "actor_rollout_ref.actor.optim.lr=5e-4",
]
METHODS = {
    "grpo_single": ["--config-name=rltf_grpo_single"],
    "grpo": ["--config-name=rltf_grpo", "rltf/feedback=verifier_full"],
    "sd": ["--config-name=rltf_sd", "rltf/feedback=verifier_full", "rltf.distill.weight=1.0"],
}
TURNS_AND_ROWS = {"grpo_single": (1, 1), "grpo": (2, 2), "sd": (2, 3)}
"""Answers and training rows of an episode, for the floor."""


def measure(folder: Path, method: str, steps: int) -> dict[str, Any]:
    """One run of a method."""
    files = save_problems(folder / "data", PROBLEMS * steps)
    began = time.monotonic()
    overrides = [*METHODS[method], *SETTINGS, *files, f"trainer.total_training_steps={steps}"]
    process, ray_dir = start(folder / "run", overrides, "")
    metrics = folder / "run" / "metrics.jsonl"
    try:
        ticks = followed(process, metrics, began)
    finally:
        end(process)
        shutil.rmtree(ray_dir, ignore_errors=True)
    if process.returncode or len(ticks) <= WARM_UP:
        raise SystemExit(f"{method} failed:\n{(folder / 'run' / 'log.txt').read_text()[-3000:]}")
    first = json.loads(metrics.read_text().splitlines()[0])["data"]
    return summary(ticks, ticks[0][0] - float(first["timing_s/step"]))


def summary(ticks: Sequence[Tick], started: float) -> dict[str, Any]:
    """Seconds of start-up and per step; the first steps are left out.

    Args:
        ticks: wall clock and processes' clocks at the end of each step.
        started: wall clock when the first step began.
    """
    (wall, before), (last_wall, after) = ticks[WARM_UP], ticks[-1]
    steps = len(ticks) - 1 - WARM_UP
    start_up, step = dict[str, float](), dict[str, float]()
    for pid, (name, seconds) in after.items():
        earlier = before.get(pid, (name, 0.0))[1]
        step[name] = step.get(name, 0.0) + (seconds - earlier) / steps
        first = ticks[0][1].get(pid, (name, 0.0))[1]
        start_up[name] = start_up.get(name, 0.0) + first
    return {
        "wall_start_s": started,
        "wall_step_s": (last_wall - wall) / steps,
        "cpu_start_s": start_up,
        "cpu_step_s": step,
    }


def floor(method: str, repeats: int = 5) -> float:
    """CPU seconds of a step's computation in this process alone, the median of some."""
    torch.set_num_threads(1)
    turns, rows = TURNS_AND_ROWS[method]
    model = AutoModelForCausalLM.from_pretrained(TOKENIZER, dtype=torch.float32)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6)
    prompts = torch.randint(5, 20, (PROBLEMS * EPISODES, 30))
    episodes = torch.randint(5, 20, (PROBLEMS * EPISODES * rows, 44))

    def step() -> None:
        for _ in range(turns):
            model.generate(prompts, max_new_tokens=14, min_new_tokens=14, do_sample=True)
        with torch.no_grad():
            old = log_probs(model, episodes)
        loss = -(log_probs(model, episodes) - old).exp().mean()
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()

    return statistics.median(cpu_seconds(step) for _ in range(repeats))


def log_probs(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """[N, T − 1] of the tokens after the first."""
    logits = model(ids).logits[:, :-1].log_softmax(-1)
    chosen: torch.Tensor = logits.gather(-1, ids[:, 1:, None])[..., 0]
    return chosen


def cpu_seconds(work: Callable[[], None]) -> float:
    """Of this process."""
    before = time.process_time()
    work()
    return time.process_time() - before


def show(method: str, runs: Sequence[dict[str, Any]], least: float, console: Console) -> None:
    """A line per process: medians over the runs."""
    table = Table(title=f"{method}: CPU seconds, floor {least:.2f} per step")
    for title in ("process", "start-up", "per step"):
        table.add_column(title, justify="left" if title == "process" else "right")
    names = sorted({name for run in runs for name in run["cpu_step_s"]})

    def median(key: str, name: str) -> float:
        return statistics.median(run[key].get(name, 0.0) for run in runs)

    for name in sorted(names, key=lambda name: -median("cpu_step_s", name)):
        numbers = (f"{median(key, name):.2f}" for key in ("cpu_start_s", "cpu_step_s"))
        table.add_row(name, *numbers)
    sums = [
        statistics.median(sum(run[key].values()) for run in runs)
        for key in ("cpu_start_s", "cpu_step_s")
    ]
    walls = [statistics.median(run[key] for run in runs) for key in ("wall_start_s", "wall_step_s")]
    table.add_row("all", *(f"{value:.2f}" for value in sums))
    table.add_row("wall", *(f"{value:.2f}" for value in walls))
    console.print(table)


@contextmanager
def neighbours(number: int) -> Iterator[None]:
    """So many processes that compute without a pause."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def main() -> None:
    """Run, print a table per method, write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["grpo_single", "sd"])
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0, help="neighbours that never rest")
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks"))
    args = parser.parse_args()
    folder = args.out.resolve() / "step_costs"
    shutil.rmtree(folder, ignore_errors=True)
    measured: dict[str, list[dict[str, Any]]] = {method: [] for method in args.methods}
    for repeat in range(args.repeats):
        for method in args.methods:
            with neighbours(args.busy):
                run = measure(folder / str(repeat) / method, method, args.steps)
            measured[method].append(run)
    floors = {method: floor(method) for method in args.methods}
    for method, runs in measured.items():
        show(method, runs, floors[method], Console())
    write_numbers("step_costs", args, {"floor_cpu_s": floors, "runs": measured})


if __name__ == "__main__":
    main()
