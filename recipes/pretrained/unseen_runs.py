"""Is a policy lost? Each task of `unseen.py` with SD and GRPO; resumable.

    python recipes/pretrained/unseen_runs.py [--tasks final] [--settings evidence] [--hardware cpu]
    python recipes/pretrained/unseen_runs.py --table

A finished run is a line of unseen.jsonl beside this file and is not run again. `recipe`: the
recipe's settings. `evidence`: the rate follows the evidence, and SD has weight 1. A run is lost
when its share of episodes that are right after feedback falls below a third of its best for three
steps in a row (`runlog.health`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from study import Study, commit, curve, training_steps
from unseen import CHOOSING, FINAL

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "unseen.jsonl"
SETS = {"choosing": CHOOSING, "final": FINAL}
METHODS = ("sd", "grpo")
SETTINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "recipe": {"sd": (), "grpo": ()},
    "evidence": {
        "sd": ("rltf.evidence_scaling=true", "rltf.distill.weight=1.0"),
        "grpo": ("rltf.evidence_scaling=true",),
    },
}
"""Settings -> method -> its words beside the recipe's config."""
LOST, FOR_STEPS = 1 / 3, 3


def lost_at(shares: Sequence[float | None]) -> int | None:
    """The step (from 1) from which on a share is below a third of its best so far for three steps
    in a row; None: it never is. Steps without a second answer do not count.

    >>> lost_at([0.9, 0.8, 0.2, 0.1, 0.0]), lost_at([0.9, 0.2, None, 0.5, 0.6])
    (3, None)
    """
    best, low = 0.0, list[int]()
    for step, share in enumerate(shares, start=1):
        if share is None:
            continue
        best = max(best, share)
        low = [*low, step] if share < LOST * best else []
        if len(low) == FOR_STEPS:
            return low[0]
    return None


def finished() -> list[dict[str, Any]]:
    """Every line of unseen.jsonl."""
    lines = RESULTS.read_text("utf-8").splitlines() if RESULTS.exists() else []
    return [json.loads(line) for line in lines]


def train(study: Study, task: str, method: str, settings: str, hardware: str) -> dict[str, Any]:
    """One run, and its line."""
    env = f"{HERE / 'unseen.py'}:Unseen"
    data = study.out / f"data_unseen_{task}"
    if not data.is_dir():
        sizes = ["--seed", "0", "--num-train", "512", "--num-test", "64"]
        study.call(["rltf", "data", "build", env, "--out", str(data), *sizes, f"task={task}"])
    folder = study.folder(("unseen", task, method, settings, hardware))
    words = [
        f"rltf/method={method}",
        f"rltf/hardware={hardware}",
        "trainer.logger=[file]",
        "data.max_response_length=48",
        f"rltf.env.name={env}",
        *(f"~rltf.env.{key}" for key in ("family", "num_houses")),
        f"+rltf.env.task={task}",
        f"data.train_files={data / 'train.parquet'}",
        f"data.val_files={data / 'test.parquet'}",
        *SETTINGS[settings][method],
    ]
    seconds = study.train_with(folder, study.model("date", "zero", 0), words)
    steps = training_steps(folder)
    return {
        "task": task,
        "method": method,
        "settings": settings,
        "hardware": hardware,
        "seconds": seconds,
        "commit": commit(),
        "first": [round(data["rltf/turn_1/acc"], 4) for data in steps],
        "second": [_rounded(data.get("rltf/turn_2/standing")) for data in steps],
        "evidence": [_rounded(data.get("rltf/update/evidence")) for data in steps],
        "held_out": [point["accuracy"] for point in curve(folder)],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def table(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A row of Markdown for each run."""
    yield "| task | method | settings | first answers, held out | second answers | lost |"
    yield "|---|---|---|---|---|---|"
    for line in lines:
        names = " | ".join(line[key] for key in ("task", "method", "settings"))
        held_out = " ".join(f"{share:.2f}" for share in line["held_out"])
        second = [share for share in line["second"] if share is not None]
        seen = f"{second[0]:.2f}, lowest {min(second):.2f}" if second else ""
        step = lost_at(line["second"])
        yield f"| {names} | {held_out} | {seen} | {'' if step is None else f'step {step}'} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("outputs/study_lm"))
    parser.add_argument("--tasks", choices=SETS, default="final")
    parser.add_argument("--settings", choices=SETTINGS, default="recipe")
    parser.add_argument("--hardware", choices=("cpu", "cpu_bf16"), default="cpu")
    parser.add_argument("--table", action="store_true", help="print the lines that are there")
    args = parser.parse_args()
    if args.table:
        print("\n".join(table(finished())))
        return
    study, keys = Study(args.out), ("task", "method", "settings", "hardware")
    made = {tuple(line[key] for key in keys) for line in finished()}
    for task, method in product(SETS[args.tasks], METHODS):
        run = (task, method, args.settings, args.hardware)
        if run not in made:
            line = train(study, *run)
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(*run, line["held_out"], "lost" if lost_at(line["second"]) else "", flush=True)


if __name__ == "__main__":
    main()
