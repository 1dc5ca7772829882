"""Trainers on the demo's problems in turns: what a step costs, and what it costs to answer right.

A line is read at the end of each step, with the CPU clocks of all processes of the run. The cost of
a step is what passes between two lines; one with a validation, and the first one, count as the mean
of the others after the warm-up. What is left of the first line is the start-up.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.peers.arms import ARMS, trl_command, verl_overrides
from benchmarks.peers.problems import Files
from benchmarks.peers.tasks import TASKS
from benchmarks.trainer_runs import Tick, end, followed, launch, start

WARM_UP = 4
ACC = re.compile(r"val-core/.*/acc/mean@\d+")

Metrics = Mapping[str, Any]
Costs = dict[str, list[float]]
"""`wall` and `cpu` seconds: those of the start-up, then of each step."""


def run(
    folder: Path,
    model: str,
    key: str,
    files: Mapping[str, Files],
    python: Path | None,
    **counts: int,
) -> dict[str, Any]:
    """One run of an arm, in a new folder, to its end.

    Args:
        folder: for this run.
        model: the task.
        key: of the arm.
        files: by the arms' kind.
        python: the interpreter that has `trl`, for its arms.
        counts: `steps`, `every` and `seed`.
    """
    arm = ARMS[model][key]
    shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    if arm.trl:
        assert python is not None
        process, ray_dir = launch(
            folder, trl_command(python, model, arm, files[arm.files], **counts)
        )
    else:
        process, ray_dir = start(folder, verl_overrides(model, arm, files[arm.files], **counts), "")
    try:
        ticks = followed(process, folder / "metrics.jsonl", began)
    finally:
        end(process)
        shutil.rmtree(ray_dir, ignore_errors=True)
    if process.returncode or len(ticks) < counts["steps"]:
        raise SystemExit(f"{key} failed:\n{(folder / 'log.txt').read_text()[-3000:]}")
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line)["data"] for line in lines]
    measured = summary(ticks, steps, TASKS[model].targets)
    return {"model": model, "arm": key, **counts, **measured}


def summary(
    ticks: Sequence[Tick], steps: Sequence[Metrics], targets: Sequence[float]
) -> dict[str, Any]:
    """A run's costs, tokens and accuracy.

    Args:
        ticks: the clocks at the end of each step.
        steps: the metrics of each step.
        targets: held-out accuracies to reach.
    """
    held_out = {i: float(acc) for i, step in enumerate(steps, 1) for acc in accuracies(step)}
    costs = {
        "wall": step_costs([tick.wall for tick in ticks], held_out),
        "cpu": step_costs([sum(tick.clocks.values()) for tick in ticks], held_out),
    }
    tokens = fmean(trained_tokens(step) for step in steps[WARM_UP:])
    means = {name: fmean(own[1 + WARM_UP :]) for name, own in costs.items()}
    return {
        "step_s": means,
        "start_s": {name: own[0] for name, own in costs.items()},
        "tokens": tokens,
        "token_ms": {name: 1000 * mean / tokens for name, mean in means.items()},
        "to": {str(target): time_to(target, held_out, costs) for target in targets},
        "memory_gb": max(tick.memory for tick in ticks) / 2**30,
        "held_out": held_out,
    }


def accuracies(step: Metrics) -> list[float]:
    """Held-out accuracy after a step, in a list; empty without a validation."""
    return [value for key, value in step.items() if ACC.fullmatch(key)]


def step_costs(at: Sequence[float], validated: Mapping[int, float]) -> list[float]:
    """Seconds of the start-up and of each step.

    Args:
        at: seconds since the start, at the end of each step.
        validated: steps (from 1) whose time includes a validation.
    """
    passed = [later - earlier for earlier, later in pairwise(at)]
    plain = [
        seconds
        for step, seconds in enumerate(passed, 2)
        if step > WARM_UP and step not in validated
    ]
    mean = fmean(plain)
    costs = [mean if step in validated else seconds for step, seconds in enumerate(passed, 2)]
    return [at[0] - mean, mean, *costs]


def trained_tokens(step: Metrics) -> float:
    """Answers' tokens in the rows of a step, prompts left out."""
    if "tokens" in step:
        return float(step["tokens"])
    prompt, answer = (float(step[f"{of}_length/mean"]) for of in ("prompt", "response"))
    return float(step["perf/total_num_tokens"]) * answer / (prompt + answer)


def time_to(target: float, held_out: Mapping[int, float], costs: Costs) -> dict[str, float] | None:
    """Steps and seconds, with and without the start-up, until a validation first finds the target;
    None if none does.
    """
    step = next((step for step, acc in sorted(held_out.items()) if acc >= target), None)
    if step is None:
        return None
    sums = {name: sum(own[1 : 1 + step]) for name, own in costs.items()}
    whole = {f"{name} with start-up": total + costs[name][0] for name, total in sums.items()}
    return {"steps": step, **sums, **whole}


def table(results: Sequence[dict[str, Any]], model: str) -> str:
    """Markdown: a line per arm and number of steps; costs are means over its seeds."""
    titles = ["arm", "wall s per step", "CPU s per step", "tokens", "CPU ms per token"]
    titles += ["start-up, wall s", "start-up, CPU s", "memory, GB"]
    targets = TASKS[model].targets
    titles += [f"to {target}: steps; CPU s; wall s" for target in targets]
    lines = ["| " + " | ".join(titles) + " |", "|---" + "|---:" * (len(titles) - 1) + "|"]
    by_arm = defaultdict(list)
    for result in results:
        if result["model"] == model:
            by_arm[result["arm"], result["steps"]].append(result)
    arms = ARMS[model]
    for (key, steps), runs in sorted(by_arm.items(), key=lambda of: list(arms).index(of[0][0])):
        cells = [
            arms[key].name,
            f"{_mean(runs, 'step_s', 'wall'):.2f}",
            f"{_mean(runs, 'step_s', 'cpu'):.2f}",
            f"{fmean(run['tokens'] for run in runs):.0f}",
            f"{_mean(runs, 'token_ms', 'cpu'):.2f}",
            f"{_mean(runs, 'start_s', 'wall'):.0f}",
            f"{_mean(runs, 'start_s', 'cpu'):.0f}",
            f"{max(run['memory_gb'] for run in runs):.1f}",
            *(reached([run["to"][str(target)] for run in runs], steps) for target in targets),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _mean(runs: Sequence[dict[str, Any]], of: str, name: str) -> float:
    return fmean(run[of][name] for run in runs)


def reached(times: Sequence[dict[str, float] | None], steps: int) -> str:
    """Steps of each seed, then the seeds' mean seconds with start-up.

    Args:
        times: `time_to` of each seed.
        steps: how long they trained.
    """
    there = [to for to in times if to is not None]
    if not there:
        return f"not in {steps} steps"
    each = ", ".join("never" if to is None else str(to["steps"]) for to in times)
    seconds = (fmean(to[f"{name} with start-up"] for to in there) for name in ("cpu", "wall"))
    return "; ".join([each, *(f"{mean:.0f}" for mean in seconds)])
