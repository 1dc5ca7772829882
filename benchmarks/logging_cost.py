"""What the episode log adds to a step of training, on the CPU: `python benchmarks/logging_cost.py`.

Runs of the real trainer (RLTF-SD) at the same time, so that they see the same load: one with the
log as it is by default, and two without, which say how far two equal runs differ. Same model,
problems and seeds, learning rate 0. Compared are the seconds of whole steps. `logging_probe.py`
also adds up what the log's own code took in each process:

worker    writing an episode's line, in the agent-loop workers, while other episodes are sampled
trainer   what the trainer waits for between advantages and update
thread    rows and packing, in a thread beside the trainer
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from trainer_runs import SAME_STEPS, run_together, save_model, save_problems, write_numbers

STEP = "timing_s/step"
OFF = ["rltf.episode_log.dir=null"]
WAYS = {"without": OFF, "with": [], "without_again": OFF}
SETTINGS = [
    "--config-name=rltf_sd",
    *SAME_STEPS,
    "rltf/hardware=cpu",
    "rltf.env.style=compact",
    "rltf/feedback=verifier_full",
    "rltf.episode.revise=compact_guide",
    "data.max_prompt_length=384",
]


def clocks(folder: Path) -> dict[str, dict[str, float]]:
    """Seconds that the log's code took in all processes, by where."""
    found: dict[str, dict[str, float]] = {}
    for path in folder.glob("probe.*"):
        wall, cpu = map(float, path.read_text().split())
        sums = found.setdefault(path.name.split(".")[1], {"wall": 0.0, "cpu": 0.0})
        sums["wall"] += wall
        sums["cpu"] += cpu
    return found


def spread(values: list[float]) -> dict[str, float]:
    """Median, and half the range between the quartiles."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "spread": (high - low) / 2}


def show(results: dict[str, Any], console: Console) -> None:
    """The medians, and the log's own clocks as shares of the steps."""
    table = Table(title="Seconds per step, without and with the episode log")
    for name in ("", "seconds", "/ without"):
        table.add_column(name, justify="right")
    for name, way in results["step"].items():
        ratio = way["median"] / results["step"]["without"]["median"]
        table.add_row(name, f"{way['median']:.3f} ± {way['spread']:.3f}", f"{ratio:.3f}")
    console.print(table)
    own = Table(title="The log's own code, % of the seconds of all steps")
    for name in ("where", "wall", "CPU"):
        own.add_column(name, justify="right")
    for where, sums in results["own"].items():
        own.add_row(
            where, *(f"{100 * sums[clock] / results['seconds']:.2f}" for clock in ("wall", "cpu"))
        )
    console.print(own)
    console.print(
        f"{results['sessions']:.0f} sessions per step, {results['bytes'] / results['written']:.0f}"
        " bytes each"
    )


def main() -> None:
    """Run, print the tables, write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--warm-up", type=int, default=4)
    parser.add_argument("--problems", type=int, default=16)
    parser.add_argument("--sessions", type=int, default=8, help="per problem")
    parser.add_argument("--tokens", type=int, default=128, help="longest answer")
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks"))
    args = parser.parse_args()
    folder = args.out.resolve() / "logging"
    shutil.rmtree(folder, ignore_errors=True)
    save_model(folder / "model", hidden=128, layers=4)
    shared = [
        *save_problems(folder, args.problems * args.steps),
        f"actor_rollout_ref.model.path={folder / 'model'}",
        f"data.train_batch_size={args.problems}",
        f"actor_rollout_ref.rollout.n={args.sessions}",
        f"data.max_response_length={args.tokens}",
        f"trainer.total_training_steps={args.steps}",
    ]
    ways = {way: [*SETTINGS, *shared, *own] for way, own in WAYS.items()}
    steps = run_together(folder / "runs", ways, "logging_probe")
    log = folder / "runs" / "with" / "checkpoints" / "episodes"
    results = {
        "step": {
            way: spread([float(m[STEP]) for m in found[args.warm_up :]])
            for way, found in steps.items()
        },
        "seconds": sum(float(m[STEP]) for m in steps["with"]),
        "own": clocks(folder / "runs" / "with"),
        "sessions": statistics.mean(m["rltf/session/total"] for m in steps["with"]),
        "written": sum(m["rltf/session/total"] for m in steps["with"]),
        "bytes": sum(path.stat().st_size for path in log.iterdir()),
    }
    show(results, Console())
    write_numbers("logging_cost", args, results)


if __name__ == "__main__":
    main()
