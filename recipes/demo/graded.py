"""Graded rewards and the baseline of distillation: the tiny policy, the real trainer, three seeds.

    python recipes/demo/graded.py [--out outputs/demo] [--hours 2]
    python recipes/demo/graded.py --table     # writes the table of docs/methods.md

A grade is the share of right cells (cells.py), and feedback corrects one row, so a second answer is
better than the first and still not right. A finished run is a line of graded.jsonl beside this file
and is not run again; the same command continues.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from rltf_verl.tools.data.build import build_parquet

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "pretrained"))

from training import Study, make_runs, mean_and_each, pivot  # noqa: E402  (in the folder above)

ENV = f"{HERE / 'cells.py'}:Cells"
SEEDS, PROBLEMS, EPISODES, STEPS = (1, 2, 3), 8, 4, 60
SD = ("rltf/method=sd", "rltf.distill.weight=1.0")
ARMS: dict[str, tuple[str, ...]] = {
    "grpo": ("rltf/method=grpo",),
    "sft": ("rltf/method=sft", "rltf.imitate.weight=1.0"),
    "sd first_turn": SD,
    "sd second_turn": (*SD, "rltf.distill.baseline=second_turn"),
    "sd rejection": (*SD, "rltf.distill.baseline=rejection"),
}
KINDS = {"share": "reward", "exact": "acc"}
"""In a line -> metric of a validation."""
COLUMNS = {
    "first answers, share of right cells": "share 1",
    "second answers": "share 2",
    "first answers all right": "exact 1",
}


@dataclass(frozen=True)
class Run:
    """One training run."""

    arm: str
    seed: int
    rate: float = 5e-4


def train(study: Study, run: Run, folder: Path) -> dict[str, Any]:
    """One run, and its line."""
    data = build_parquet(ENV, study.out / "data_cells", 0, 2000, 100)
    words = [
        *ARMS[run.arm],
        *("rltf/env=own", f"rltf.env.name={ENV}", "rltf/hardware=cpu"),
        *("rltf/feedback=verifier_full", "rltf.episode.revise=compact_guide"),
        "rltf.reward.format_coef=0.0",
        f"actor_rollout_ref.model.path={HERE / 'policy'}",
        *("data.max_prompt_length=64", "data.max_response_length=20"),
        *(f"data.train_files={data.train}", f"data.val_files={data.test}"),
        f"data.train_batch_size={PROBLEMS}",
        f"actor_rollout_ref.rollout.n={EPISODES}",
        f"actor_rollout_ref.actor.optim.lr={run.rate}",
        *(f"rltf.seed={run.seed}", f"data.seed={run.seed}"),
        *("trainer.logger=[file]", "trainer.save_freq=-1", "trainer.resume_mode=disable"),
        *(f"trainer.total_training_steps={STEPS}", "trainer.test_freq=30"),
    ]
    seconds = study.train_with(folder, None, words, ("--config-name=rltf",))
    return {**asdict(run), **_held_out(folder), "seconds": seconds}


def _held_out(folder: Path) -> dict[str, Any]:
    """First and second answers of each validation, and the step at which a warning first fired."""
    text = (folder / "metrics.jsonl").read_text("utf-8")
    records = [json.loads(line) for line in text.splitlines()]
    names = {f"{kind} {k}": f"/turn_{k}/{KINDS[kind]}" for k, kind in product((1, 2), KINDS)}
    seen = {
        column: [
            round(value, 3)
            for record in records
            for key, value in record["data"].items()
            if key.startswith("rltf_val/") and key.endswith(name)
        ]
        for column, name in names.items()
    }
    warned = (record["step"] for record in records if record["data"].get("rltf/warnings"))
    return seen | {"warned": next(warned, None)}


def table(lines: Sequence[Any]) -> str:
    """Held-out answers at the end, as mean and seeds; Markdown."""
    cells = {
        (arm, title): [mean_and_each([line[of][-1] for line in lines if line["arm"] == arm])]
        for arm, (title, of) in product(ARMS, COLUMNS.items())
    }
    return "\n".join(pivot("", cells))


def runs() -> Iterator[Run]:
    """Seeds are outermost."""
    for seed, arm in product(SEEDS, ARMS):
        yield Run(arm, seed)


if __name__ == "__main__":
    page = HERE.parents[1] / "docs/methods.md"
    make_runs(HERE / "graded.jsonl", page, __doc__, runs(), train, table)
