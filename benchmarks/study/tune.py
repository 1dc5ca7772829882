"""How the learning rate of the study was chosen: GRPO and SD at several, on problems and a seed that it does not use.

    python -m benchmarks.study.tune OUT [--steps 60]

The policy is OUT/policy. The rate with the best mean of both methods' first-turn accuracies (mean of the evaluations)
on held-out problems that the study does not report on is the one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers.utils.logging import disable_progress_bar

from benchmarks.study.settings import Run, Scale, compose_config, problems, tuning_problems
from benchmarks.study.train import Trainer, train

SEED, RATES, METHODS = 100, (1e-4, 2e-4, 5e-4), ("grpo", "sd")


def curve_at(rate: float, method: str, out: Path, scale: Scale) -> list[float]:
    """Held-out first-turn accuracy at every evaluation."""
    run = Run("full", method, SEED)
    config = compose_config(method, [*run.overrides(scale), f"actor_rollout_ref.actor.optim.lr={rate}"])
    trainer = Trainer(config, out / "policy", problems().train, scale.steps)
    trained = train(trainer, tuning_problems(), scale.eval_every, lambda point: None)
    return [point["acc"] for point in trained.curve]


def main() -> None:
    """Print one line per rate."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()
    for rate in arguments.rates:
        curves = {m: curve_at(rate, m, arguments.out, Scale(steps=arguments.steps)) for m in METHODS}
        means = {m: sum(curve) / len(curve) for m, curve in curves.items()}
        print(f"lr {rate:g}: mean of both {sum(means.values()) / len(means):.3f}  {curves}", flush=True)


if __name__ == "__main__":
    main()
