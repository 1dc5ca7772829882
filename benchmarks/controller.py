"""What the plugin adds to a step of plain verl GRPO, on the CPU: `python benchmarks/controller.py`.

Two runs of the real trainer at the same time, so that both see the same load: verl's own GRPO
(trainer mode `sync`, its single-turn agent loop, a reward function) and ours with one turn per
episode. Same model (a small Llama with random weights, made on the spot, learning rate 0, so that
answers stay as long as they are), same problems, batch, sampling and optimiser settings, log-probs
of the sampler in both, all rows in the update. `controller_probe.py` reads the clocks:

own       what the trainer process does itself between the last sampled token and the end of the
update workers   its calls of the actor's workers: log-probs and update, with our columns and our
loss step      all of it, but for sampling: own + workers

Medians over the steps after a warm-up, over all repeats; the spread is half the range between the
quartiles.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table
from trainer_runs import (
    HERE,
    SAME_STEPS,
    run_together,
    save_model,
    save_problems,
    write_numbers,
)

SHOWN = {
    "own": "controller/own_s",
    "own, CPU": "controller/cpu_s",
    "workers": "controller/workers_s",
}

SETTINGS = [
    *SAME_STEPS,
    "actor_rollout_ref.actor.entropy_coeff=1e-9",  # else ours leaves out rows without a gradient
    "data.max_prompt_length=64",
    "data.return_raw_chat=true",
    "actor_rollout_ref.rollout.calculate_log_probs=true",
    "actor_rollout_ref.actor.loss_agg_mode=token-sum",
    "actor_rollout_ref.actor.ppo_mini_batch_size=${data.train_batch_size}",
]

WAYS = {
    "verl": [
        "--config-name=ppo_trainer",
        "+rltf/hardware=cpu",
        "algorithm.adv_estimator=grpo",
        f"reward.custom_reward_function.path={HERE / 'controller_probe.py'}",
    ],
    "ours": [
        "--config-name=rltf_grpo_single",
        "rltf/hardware=cpu",
        "rltf.env.style=compact",
        "rltf.episode.revise=compact_guide",
    ],
}


def save_problems_of(folder: Path, number: int) -> dict[str, list[str]]:
    """The same problems for each way; verl's are without the column that names our agent loop."""
    files = {way: save_problems(folder / way, number) for way in WAYS}
    for word in files["verl"]:
        path = word.partition("=")[2]
        pq.write_table(pq.read_table(path).drop_columns(["agent_name"]), path)
    return files


def run_both(
    folder: Path, files: dict[str, list[str]], shared: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """Both ways at the same time; their metrics per step."""
    overrides = {way: [*WAYS[way], *SETTINGS, *files[way], *shared] for way in WAYS}
    steps = run_together(folder, overrides, "controller_probe")
    return {
        way: [record for record in records if SHOWN["own"] in record]
        for way, records in steps.items()
    }


def summary(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and spread of every clock, and what was trained on."""
    clocks = {name: [float(step[key]) for step in steps] for name, key in SHOWN.items()}
    clocks["step"] = [
        own + workers for own, workers in zip(clocks["own"], clocks["workers"], strict=True)
    ]
    seconds = {}
    for name, values in clocks.items():
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        seconds[name] = {"median": median, "spread": (high - low) / 2}
    sizes = {
        name: statistics.mean(step[f"controller/{name}"] for step in steps)
        for name in ("rows", "tokens")
    }
    return {"steps": len(steps), **sizes, "seconds": seconds}


def show(results: dict[str, Any], console: Console) -> None:
    """One line per clock, and what is added."""
    table = Table(title="verl GRPO and ours, seconds per step without sampling")
    for name in ("", "verl", "ours", "ours / verl", "added, % of verl's step"):
        table.add_column(name, justify="right")
    whole = results["verl"]["seconds"]["step"]["median"]
    for name in (*SHOWN, "step"):
        verl, ours = (results[way]["seconds"][name] for way in ("verl", "ours"))
        table.add_row(
            name,
            *(f"{way['median']:.3f} ± {way['spread']:.3f}" for way in (verl, ours)),
            f"{ours['median'] / verl['median']:.3f}",
            f"{100 * (ours['median'] - verl['median']) / whole:+.1f}",
        )
    console.print(table)
    for way, found in results.items():
        console.print(
            f"{way}: {found['steps']} steps of {found['rows']:.0f} rows, {found['tokens']:.0f}"
            " tokens"
        )


def main() -> None:
    """Run, print the table, write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--warm-up", type=int, default=4)
    parser.add_argument("--problems", type=int, default=32)
    parser.add_argument("--sessions", type=int, default=8, help="per problem")
    parser.add_argument("--tokens", type=int, default=128, help="longest answer")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks"))
    args = parser.parse_args()
    measured: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    folder = args.out.resolve() / "controller"
    shutil.rmtree(folder, ignore_errors=True)
    save_model(folder / "model", args.hidden, args.layers)
    files = save_problems_of(folder, args.problems * args.steps)
    shared = [
        f"actor_rollout_ref.model.path={folder / 'model'}",
        f"data.train_batch_size={args.problems}",
        f"actor_rollout_ref.rollout.n={args.sessions}",
        f"data.max_response_length={args.tokens}",
        f"trainer.total_training_steps={args.steps}",
    ]
    for repeat in range(args.repeats):
        for way, steps in run_both(folder / str(repeat), files, shared).items():
            measured[way] += steps[args.warm_up :]
    results = {way: summary(steps) for way, steps in measured.items()}
    show(results, Console())
    write_numbers("controller", args, results)


if __name__ == "__main__":
    main()
