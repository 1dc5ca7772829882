"""Trainers on the same problems in turns: what a step costs.

A line is read at the end of each step, with the CPU clocks of all processes of the run. The cost of
a step is what passes between two lines. Arms take turns, and each is also compared with another one
of the same turn: a machine is not as fast in each hour.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.peers.arms import ARMS, trl_command, verl_overrides
from benchmarks.peers.problems import Files
from benchmarks.peers.tasks import Task
from benchmarks.trainer_runs import Tick, end, followed, launch, start

Metrics = Mapping[str, Any]


def run(
    folder: Path,
    task: Task,
    key: str,
    files: Mapping[str, Files],
    python: Path | None,
    seed: int,
) -> dict[str, Any]:
    """What a run of an arm costs, in a new folder.

    Args:
        folder: for this run.
        task: problems, policy and settings.
        key: of the arm.
        files: by the arms' kind.
        python: the interpreter that has `trl`, for its arms.
        seed: of the problems' order and of what is sampled.
    """
    arm = ARMS[task.name][key]
    shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    if arm.trl:
        assert python is not None
        process, ray_dir = launch(folder, trl_command(python, task, arm, files[arm.files], seed))
    else:
        process, ray_dir = start(folder, verl_overrides(task, arm, files[arm.files], seed), "")
    try:
        ticks = followed(process, folder / "metrics.jsonl", began)
    finally:
        end(process)
        shutil.rmtree(ray_dir, ignore_errors=True)
    if process.returncode or len(ticks) < task.steps:
        raise SystemExit(f"{key} failed:\n{(folder / 'log.txt').read_text()[-3000:]}")
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return costs(ticks, [json.loads(line)["data"] for line in lines], task.warm_up)


def costs(ticks: Sequence[Tick], steps: Sequence[Metrics], warm_up: int) -> dict[str, float]:
    """A run's means over its steps after the warm-up.

    Args:
        ticks: the clocks at the end of each step.
        steps: the metrics of each step.
        warm_up: first steps that are not counted.
    """
    at = {
        "wall_s": [tick.wall for tick in ticks],
        "cpu_s": [sum(tick.clocks.values()) for tick in ticks],
    }
    num = len(ticks) - warm_up
    means = {name: (clock[-1] - clock[warm_up - 1]) / num for name, clock in at.items()}
    tokens = fmean(trained_tokens(step) for step in steps[warm_up:])
    means["tokens"] = tokens
    means["token_cpu_ms"] = 1000 * means["cpu_s"] / tokens
    means["memory_gb"] = max(tick.memory for tick in ticks) / 2**30
    return {name: round(mean, 4) for name, mean in means.items()}


def trained_tokens(step: Metrics) -> float:
    """Tokens of answers in the rows of a step; SD's second answers stand in two."""
    if "tokens" in step:
        return float(step["tokens"])
    prompt, answer = (float(step[f"{of}_length/mean"]) for of in ("prompt", "response"))
    return float(step["perf/total_num_tokens"]) * answer / (prompt + answer)


COLUMNS = {
    "step, wall s": "wall_s",
    "step, CPU s": "cpu_s",
    "row tokens": "tokens",
    "CPU ms per row token": "token_cpu_ms",
    "memory, GB": "memory_gb",
}
EQUAL = "grpo_all"
"""The arm that trains all rows of a step, as TRL does."""


def table(lines: Sequence[Mapping[str, Any]], task: Task) -> str:
    """Markdown: a line per arm, each value the median over its runs, their range behind it; the
    last column is CPU time per row token over that of `EQUAL` in the same turn.
    """
    by_arm: dict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for line in lines:
        if (line["task"], line["hardware"]) == (task.name, task.hardware):
            by_arm[line["arm"]][line["seed"]] = line
    rows = [["", *COLUMNS, "in the same turn"], ["---", *["---:"] * (len(COLUMNS) + 1)]]
    for key in (key for key in ARMS[task.name] if key in by_arm):
        runs, equal = by_arm[key], by_arm.get(EQUAL, {})
        times = [
            run["token_cpu_ms"] / equal[seed]["token_cpu_ms"]
            for seed, run in runs.items()
            if seed in equal
        ]
        cells = [spread([run[of] for run in runs.values()]) for of in COLUMNS.values()]
        rows.append([ARMS[task.name][key].name, *cells, spread(times) if times else ""])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def spread(values: Sequence[float]) -> str:
    """The median, and the range behind it.

    >>> spread([3.14, 2.0, 10.0]), spread([160.0, 162.0])
    ('3.1 (2.0 to 10.0)', '161 (160 to 162)')
    """
    middle = median(values)
    digits = 0 if middle >= 100 else 1 if middle >= 2 else 2
    low, mid, high = (f"{v:.{digits}f}" for v in (min(values), middle, max(values)))
    return f"{mid} ({low} to {high})"
