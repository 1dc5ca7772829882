"""Is a policy lost? Fourteen tasks beyond the study, with SD and GRPO; resumable.

    python recipes/pretrained/unseen_runs.py [--tasks final] [--hardware cpu]

A finished run is a line of unseen.jsonl beside this file and is not run again; `study_report.py`
has its table. A run is lost when its share of episodes that are right after feedback falls below a
third of its best for three steps in a row (`runlog.health`).
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, product
from pathlib import Path
from statistics import fmean
from typing import Any

from training import COMMIT, Study, curve, pivot, training_steps
from unseen import COMPANIES, PUZZLES

from rltf_verl.jsonl import append_lines

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent / "demo"
RESULTS = HERE / "unseen.jsonl"
COMPANY = "company"
"""The demo's, of which `pretrained.sh` has the words."""
SETS = {
    "choosing": (
        *(COMPANY, "archive", "equals", "percent"),
        *("amounts", "addresses", "names", "distances"),
    ),
    "final": ("arrows", "carets", "yearless", "offices", "codes", "counts"),
}
"""For choosing settings, and for running once at the end. `names` and `percent` were for the end
until SD with its floor had learned nothing of them.
"""
METHODS = ("sd", "grpo")
WORDS = {"sd": ("rltf.distill.weight=1.0",), "grpo": ()}
"""Method -> its words beside the config's."""
STEPS, PUZZLE_STEPS = 16, 85
NOW = "rate × 0.6"
"""The recipe's settings. All others are only in the commits that their lines name."""
LOST, FOR_STEPS = 1 / 3, 3


@dataclass(frozen=True)
class Run:
    """One training run."""

    task: str
    method: str
    settings: str
    hardware: str
    seed: int = 0


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


def train(study: Study, run: Run, folder: Path) -> dict[str, Any]:
    """One run, and its line."""
    task, method = run.task, run.method
    data = problems(study, task)
    steps = PUZZLE_STEPS if task in PUZZLES else STEPS
    words = [
        f"rltf/hardware={run.hardware}",
        "trainer.logger=[file]",
        f"data.train_files={data / 'train.parquet'}",
        f"data.val_files={data / 'test.parquet'}",
        *WORDS[method],
        f"trainer.total_training_steps={steps}",
    ]
    if task in PUZZLES:
        config = ["--config-name", f"rltf_{method}"]
        seconds = study.train_with(folder, None, [*puzzle_words(task, method), *words], config)
    else:
        family = "entries" if task in COMPANIES else "date"
        own = [f"rltf/method={method}", "data.max_response_length=48", *task_words(task)]
        seconds = study.train_with(folder, study.model(family, "zero", 0), [*own, *words])
    steps = training_steps(folder)
    return {
        **asdict(run),
        "seconds": seconds,
        "commit": COMMIT,
        "first": [round(data["rltf/turn_1/acc"], 4) for data in steps],
        "second": [_rounded(data.get("rltf/turn_2/standing")) for data in steps],
        "moved": [_rounded(data.get("rltf/update/norm")) for data in steps],
        "held_out": [point["accuracy"] for point in curve(folder)],
    }


def environment(task: str) -> str:
    """`file.py:Class` of a task that is not the demo's."""
    kind = "Company" if task in COMPANIES else "Puzzle" if task in PUZZLES else "Unseen"
    return f"{HERE / 'unseen.py'}:{kind}"


def problems(study: Study, task: str) -> Path:
    """The folder of a task's problems; made where it is not there."""
    if task == COMPANY:
        return study.data("date", 0)
    name = f"data_unseen_{task}"
    sizes = ["--seed", "0", "--num-train", "512", "--num-test", "64", f"task={task}"]
    build = ["rltf", "data", "build", environment(task), *sizes]
    return study.made(study.out / name, lambda out: study.call([*build, "--out", str(out / name)]))


def task_words(task: str) -> list[str]:
    """Of the recipe's config."""
    if task == COMPANY:
        return [f"rltf.env.name={HERE / 'house_style.py'}:HouseStyle"]
    return [
        f"rltf.env.name={environment(task)}",
        *(f"~rltf.env.{key}" for key in ("family", "num_houses")),
        f"+rltf.env.task={task}",
    ]


def puzzle_words(task: str, method: str) -> list[str]:
    """Of the tiny policy's demo, as `run_demo` has them."""
    sys.path.insert(0, str(DEMO))
    import run_demo

    others = [*run_demo.SETTINGS, *run_demo.METHOD_SETTINGS[method]]
    return [
        *(word for word in others if not word.startswith(("rltf.env.", "rltf/hardware"))),
        "rltf/env=own",
        f"rltf.env.name={environment(task)}",
        f"+rltf.env.task={task}",
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def table(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A row for each task, of the runs with the recipe's settings; a text for each seed."""
    cells = defaultdict[tuple[str, str], list[str]](list)
    for task, line in product(chain(*SETS.values()), lines):
        if (line["task"], line["settings"]) == (task, NOW):
            if line["method"] == METHODS[0]:
                cells[task, "right after feedback in step 1"].append(f"{line['second'][0]:.2f}")
            shares = " ".join(f"{share:.2f}" for share in line["held_out"])
            cells[task, f"{line['method']}, held out"].append(shares + _lost(line))
    return pivot("task", cells)


def control_table(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A row for each form of the rate, for each seed the end and the mean of training."""
    cells = defaultdict[tuple[str, str], list[str]](list)
    for line in sorted(lines, key=lambda line: (line["settings"], line.get("seed", 0))):
        if line.get("seed"):
            end, mean = line["held_out"][-1], fmean(line["held_out"][1:])
            of = f"{line['task']}, {line['method']}, {line['hardware']}"
            cells[line["settings"], of].append(f"{end:.2f} ({mean:.2f}{_lost(line)})")
    return pivot("rate", cells)


def _lost(line: Mapping[str, Any]) -> str:
    step = lost_at(line["second"])
    return "" if step is None else f", lost at step {step}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("outputs/study_lm"))
    parser.add_argument("--tasks", choices=SETS, default="final")
    parser.add_argument("--hardware", choices=("cpu", "cpu_bf16"), default="cpu")
    args = parser.parse_args()
    study = Study(args.out)
    tasks = product(SETS[args.tasks], METHODS)
    runs = [Run(task, method, NOW, args.hardware) for task, method in tasks]
    for run, folder in study.missing(runs, RESULTS):
        line = train(study, run, folder)
        append_lines(RESULTS, [line])
        print(run, line["held_out"], "lost" if lost_at(line["second"]) else "", flush=True)


if __name__ == "__main__":
    main()
