"""How a step grows with horizon, group size and the judge's latency: `python benchmarks/scale.py`.

The real trainer (RLTF-SD) on the CPU with a small random model, learning rate 0: every answer is
wrong, so every episode plays all of its turns. One run per setting, one after the other; medians
over the steps after a warm-up. Beside each number stands what the formulas of docs/scale.md say,
scaled to the first line where they are proportions.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from pathlib import Path
from typing import Any

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

PROBLEMS, EPISODES, HORIZON = 8, 4, 2
LINES: dict[str, dict[str, Any]] = {
    "2 turns": {},
    "1 turn": {"horizon": 1},
    "3 turns": {"horizon": 3},
    "5 turns": {"horizon": 5},
    "groups of 8": {"sessions": 8},
    "groups of 16": {"sessions": 16},
    "judge 1 s": {"latency_s": 1.0},
    "judge 1 s, 3 turns": {"latency_s": 1.0, "horizon": 3},
    "judge 1 s, 8 at once": {"latency_s": 1.0, "concurrency": 8},
}
SETTINGS = [
    *SAME_STEPS,
    "rltf/hardware=cpu",
    "rltf.env.style=compact",
    "rltf.episode.revise=compact",
    "rltf/feedback=own",
    f"rltf.feedback.provider={HERE / 'slow_feedback.py'}:Slow",
    "data.max_prompt_length=384",
    f"data.train_batch_size={PROBLEMS}",
]
MEASURED = {
    "rows": "rltf/rows/per_session",
    "tokens": "perf/total_num_tokens",
    "sampling": "timing_s/gen",
    "log-probs": "timing_s/old_log_prob",
    "update": "timing_s/update_actor",
    "step": "timing_s/step",
}


def overrides(line: dict[str, Any]) -> list[str]:
    """Of one setting; without a second turn there is nothing to distil."""
    horizon, episodes = line.get("horizon", HORIZON), line.get("sessions", EPISODES)
    return [
        f"--config-name={'rltf_grpo_single' if horizon == 1 else 'rltf_sd'}",
        *SETTINGS,
        f"rltf.episode.horizon={horizon}",
        f"actor_rollout_ref.rollout.n={episodes}",
        f"+rltf.feedback.latency_s={line.get('latency_s', 0.0)}",
        f"+rltf.feedback.concurrency={line.get('concurrency', 1024)}",
    ]


def expected_rows(line: dict[str, Any]) -> float:
    """K attempts, and a distillation row where there is a second one."""
    horizon = line.get("horizon", HORIZON)
    return float(horizon + (horizon > 1))


def expected_wait(line: dict[str, Any]) -> float:
    """Seconds of judge time in a step: (K − 1) · latency · ⌈episodes / concurrency⌉."""
    calls = PROBLEMS * line.get("sessions", EPISODES)
    rounds = -(-calls // line.get("concurrency", 1024))
    return float((line.get("horizon", HORIZON) - 1) * line.get("latency_s", 0.0) * rounds)


def show(found: dict[str, dict[str, float]], console: Console) -> None:
    """One line per setting."""
    table = Table(title="A step, measured (by formula)")
    header = (
        "",
        "rows per session",
        "tokens",
        "log-probs + update, s",
        "by tokens",
        "sampling, s",
        "more than without judge, s",
    )
    for name in header:
        table.add_column(name, justify="right")
    first = found["2 turns"]
    for name, line in LINES.items():
        own = found[name]
        trained, base = own["log-probs"] + own["update"], first["log-probs"] + first["update"]
        silent = found["3 turns" if line.get("horizon") == 3 else "2 turns"]
        wait = (
            f"{own['sampling'] - silent['sampling']:.2f} ({expected_wait(line):.0f})"
            if line.get("latency_s")
            else "–"
        )
        table.add_row(
            name,
            f"{own['rows']:.2f} ({expected_rows(line):.0f})",
            f"{own['tokens']:.0f}",
            f"{trained:.2f}",
            f"{base * own['tokens'] / first['tokens']:.2f}",
            f"{own['sampling']:.2f}",
            wait,
        )
    console.print(table)


def main() -> None:
    """Run, print the table, write the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64, help="longest answer")
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks"))
    args = parser.parse_args()
    folder = args.out.resolve() / "scale"
    shutil.rmtree(folder, ignore_errors=True)
    save_model(folder / "model", hidden=128, layers=4)
    shared = [
        *save_problems(folder, PROBLEMS * args.steps),
        f"actor_rollout_ref.model.path={folder / 'model'}",
        f"data.max_response_length={args.tokens}",
        f"trainer.total_training_steps={args.steps}",
    ]
    found = {}
    for i, (name, line) in enumerate(LINES.items()):
        steps = run_together(folder / "runs" / str(i), {"run": [*overrides(line), *shared]}, "")[
            "run"
        ][args.warm_up :]
        found[name] = {
            short: statistics.median(float(m[key]) for m in steps)
            for short, key in MEASURED.items()
        }
        Console().print(name, found[name])
    show(found, Console())
    write_numbers("scale", args, {"lines": found})


if __name__ == "__main__":
    main()
