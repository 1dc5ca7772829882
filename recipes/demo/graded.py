"""Graded rewards and the baseline of distillation: the tiny policy, the real trainer, three seeds.

    python recipes/demo/graded.py [--out outputs/graded] [--arms grpo sft …] [--steps 60]

A grade is the share of right cells (cells.py), and feedback corrects one row, so a second answer is
better than the first and still not right. A finished run is a line of graded.jsonl beside this file
and is not run again; the same command continues, and prints the table of docs/methods.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

from run_demo import HERE, Run, launch, stop

from rltf_verl.tools.data.build import build_parquet

RESULTS = HERE / "graded.jsonl"
ENV = f"{HERE / 'cells.py'}:Cells"
SEEDS, PROBLEMS, EPISODES = (1, 2, 3), 8, 4
SD = ("rltf/method=sd", "rltf.distill.weight=1.0")
ARMS: dict[str, tuple[str, ...]] = {
    "grpo": ("rltf/method=grpo",),
    "sft": ("rltf/method=sft", "rltf.imitate.weight=1.0"),
    "sd first_turn": SD,
    "sd second_turn": (*SD, "rltf.distill.baseline=second_turn"),
    "sd rejection": (*SD, "rltf.distill.baseline=rejection"),
}
KINDS = {"share": "reward", "exact": "acc"}
"""Column -> metric of a validation."""


def finished() -> list[dict[str, Any]]:
    """The lines of graded.jsonl."""
    text = RESULTS.read_text("utf-8") if RESULTS.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def train(arm: str, seed: int, steps: int, rate: float, out: Path) -> dict[str, Any]:
    """One run, as a line of graded.jsonl.

    Raises:
        SystemExit: it failed; names its log.
    """
    data = build_parquet(ENV, out / "data", 0, 2000, 100)
    folder = out / f"{arm.replace(' ', '_')}_{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        *(sys.executable, "-m", "verl.trainer.main_ppo", "--config-name=rltf", *ARMS[arm]),
        *("rltf/env=own", f"rltf.env.name={ENV}", "rltf/hardware=cpu"),
        *("rltf/feedback=verifier_full", "rltf.episode.revise=compact_guide"),
        "rltf.reward.format_coef=0.0",
        f"actor_rollout_ref.model.path={HERE / 'policy'}",
        *("data.max_prompt_length=64", "data.max_response_length=20"),
        *(f"data.train_files={data.train}", f"data.val_files={data.test}"),
        f"data.train_batch_size={PROBLEMS}",
        f"actor_rollout_ref.rollout.n={EPISODES}",
        f"actor_rollout_ref.actor.optim.lr={rate}",
        *(f"rltf.seed={seed}", f"data.seed={seed}"),
        *("trainer.logger=[file]", "trainer.save_freq=-1", "trainer.resume_mode=disable"),
        *(f"trainer.total_training_steps={steps}", "trainer.test_freq=30"),
        f"trainer.default_local_dir={folder / 'checkpoints'}",
        f"hydra.run.dir={folder / 'hydra'}",
    ]
    with tempfile.TemporaryDirectory(prefix="rltf", ignore_cleanup_errors=True) as ray_folder:
        run = launch(arm, folder, command, Path(ray_folder))
        try:
            code = run.process.wait()
        finally:
            stop([run])
    if code:
        raise SystemExit(f"{arm}, seed {seed} ended with {code}: see {folder / 'log.txt'}")
    seconds = round(time.monotonic() - run.started)
    return {"arm": arm, "seed": seed, "rate": rate, **_held_out(run), "seconds": seconds}


def _held_out(run: Run) -> dict[str, Any]:
    """First and second answers of each validation, and the step at which a warning first fired."""
    names = {f"{kind} {k}": f"/turn_{k}/{KINDS[kind]}" for k, kind in product((1, 2), KINDS)}
    seen = {
        column: [
            round(value, 3)
            for record in run.metrics
            for key, value in record["data"].items()
            if key.startswith("rltf_val/") and key.endswith(name)
        ]
        for column, name in names.items()
    }
    warned = (record["step"] for record in run.metrics if record["data"].get("rltf/warnings"))
    return seen | {"warned": next(warned, None)}


def table() -> str:
    """Held-out answers at the end, as mean and seeds; Markdown."""
    columns = [f"{kind} {k}" for k, kind in product((1, 2), KINDS)]
    lines = [f"| | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    for arm in (arm for arm in ARMS if any(line["arm"] == arm for line in finished())):
        runs = [line for line in finished() if line["arm"] == arm]
        ends = [[run[column][-1] for run in runs] for column in columns]
        cells = [
            f"{statistics.fmean(end):.2f} ({' '.join(f'{share:.2f}' for share in end)})"
            for end in ends
        ]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("outputs/graded"))
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rate", type=float, default=5e-4)
    args = parser.parse_args()
    done = {(line["arm"], line["seed"]) for line in finished()}
    for seed, arm in product(SEEDS, args.arms):
        if (arm, seed) not in done:
            line = train(arm, seed, args.steps, args.rate, args.out.resolve())
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(line, flush=True)
    print(table())


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
