"""How the learning rates of the study were chosen: every preset at several, on a policy, seed and
problems of its own.

    python -m benchmarks.study.tune [--out outputs/study] [--steps 60]

Per preset the rate with the best mean of the first-turn accuracies is the one (`settings.RATES`). A
finished run has its file in OUT/tuning and is not run again.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch
from transformers.utils.logging import disable_progress_bar

from benchmarks.study.policy import RECIPES, make_policy
from benchmarks.study.runs import made, write
from benchmarks.study.settings import (
    TUNING_SEED,
    Run,
    Scale,
    compose_config,
    problems,
    tuning_problems,
)
from benchmarks.study.train import Trainer, train

RATES = (2e-4, 5e-4)
ARMS = ("grpo", "sd", "sft", "fm 0.1")


def run_at(rate: float, arm: str, out: Path, scale: Scale) -> dict[str, Any]:
    """One run; returns what is written."""
    run = Run(arm, TUNING_SEED)
    config = compose_config(
        run.preset, [*run.overrides(scale), f"actor_rollout_ref.actor.optim.lr={rate}"]
    )
    trainer = Trainer(config, out / run.policy, problems().train, scale.steps)
    trained = train(trainer, tuning_problems(), scale.eval_every, lambda point: None)
    curve = [point["acc"] for point in trained.curve]
    return {"arm": arm, "rate": rate, "acc": curve, "mean": round(statistics.mean(curve[1:]), 4)}


def main() -> None:
    """Print one line per arm and rate."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("outputs/study"))
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()
    policy = arguments.out / Run(ARMS[0], TUNING_SEED).policy
    if not made(policy):
        make_policy(policy, RECIPES["vague"], TUNING_SEED)
    for arm in ARMS:
        for rate in RATES:
            path = arguments.out / "tuning" / f"{arm.replace(' ', '_')}-{rate:g}.json"
            if not path.exists():
                record = run_at(
                    rate, arm, arguments.out, Scale(steps=arguments.steps, eval_every=20)
                )
                write(path, record)
                print(record, flush=True)


if __name__ == "__main__":
    main()
