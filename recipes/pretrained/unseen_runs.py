"""Is a policy lost? Fourteen tasks beyond the study, with SD and GRPO; resumable.

    python recipes/pretrained/unseen_runs.py [--tasks final] [--settings recipe] [--hardware cpu]

A finished run is a line of unseen.jsonl beside this file and is not run again; `study_report.py`
has its table and its picture. `recipe`: the settings as they come. `longer`: with twice the steps,
where first answers still rise at the end. `before`: those of the recipe until steps followed the
evidence. A run is lost when its share of episodes that are right after feedback falls below a third
of its best for three steps in a row (`runlog.health`).
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from training import COMMIT, Study, curve, training_steps
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
WEIGHT = ("rltf.distill.weight=1.0",)
BEFORE = (
    *("rltf.evidence_scaling=false", "rltf.distill.log_prob_floor=-5.0"),
    "trainer.test_freq=16",
)
RECIPE = {"sd": WEIGHT, "grpo": ()}
STEPS, PUZZLE_STEPS = 16, 85
SETTINGS: dict[str, dict[str, tuple[str, ...]]] = {
    "recipe": RECIPE,
    "longer": RECIPE,
    "before": {"sd": BEFORE, "grpo": BEFORE},
}
"""Settings -> method -> its words beside the config's."""
CONTROL = (
    *(("arrows", "sd", "cpu_bf16"), (COMPANY, "grpo", "cpu")),
    *(("yearless", "grpo", "cpu_bf16"), ("equals", "sd", "cpu"), (COMPANY, "sd", "cpu_bf16")),
)
"""Task, method and hardware with which the forms of the rate are compared."""
RATE = "actor_rollout_ref.actor.optim.lr"
FULL = "rltf.evidence_scaling=false"
FORMS = {
    "rate × √e": (),
    "rate × 0.35": (FULL, f"{RATE}=3.5e-5"),
    "rate × 0.6": (FULL, f"{RATE}=6e-5"),
    "warm-up of 4": (FULL, "actor_rollout_ref.actor.optim.lr_warmup_steps=4"),
    "rate": (FULL,),
}
"""Settings -> words. A sixth, `rate × √(e / mean e)` with e by episode over its running mean, is
only in the commit that its lines name.
"""
SEEDS = (1, 2)
SHOWN = {
    "before": ("the rate as it is set: lost", "#D55E00"),
    "recipe": ("rate × √e: kept", "#0072B2"),
}
"""Settings -> name and colour in the picture."""
LOST, FOR_STEPS = 1 / 3, 3


@dataclass(frozen=True)
class Run:
    """One training run."""

    task: str
    method: str
    settings: str
    hardware: str
    seed: int = 0

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Run:
        """The one that made a line."""
        return cls(*(line.get(field.name, 0) for field in fields(cls)))


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
    steps = (PUZZLE_STEPS if task in PUZZLES else STEPS) * (2 if run.settings == "longer" else 1)
    words = [
        f"rltf/hardware={run.hardware}",
        "trainer.logger=[file]",
        f"data.train_files={data / 'train.parquet'}",
        f"data.val_files={data / 'test.parquet'}",
        *words_of(run),
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
        "evidence": [_rounded(data.get("rltf/update/evidence")) for data in steps],
        "held_out": [point["accuracy"] for point in curve(folder)],
    }


def words_of(run: Run) -> list[str]:
    """Its own words beside the config's."""
    if run.settings in SETTINGS:
        return [*SETTINGS[run.settings][run.method]]
    return [
        *RECIPE[run.method],
        *FORMS[run.settings],
        f"rltf.seed={run.seed}",
        f"data.seed={run.seed}",
    ]


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
    """A row of Markdown for each run, but those of the control."""
    yield "| task | method | settings | on | first answers, held out | second answers | lost |"
    yield "|---|---|---|---|---|---|---|"
    runs = [line for line in lines if line["settings"] in SETTINGS]
    for line in sorted(runs, key=lambda line: astuple(Run.of(line))):
        names = " | ".join(astuple(Run.of(line))[:-1])
        held_out = " ".join(f"{share:.2f}" for share in line["held_out"])
        second = [share for share in line["second"] if share is not None]
        seen = f"{second[0]:.2f}, lowest {min(second):.2f}" if second else ""
        step = lost_at(line["second"])
        yield f"| {names} | {held_out} | {seen} | {'' if step is None else f'step {step}'} |"


def control_table(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A row of Markdown for each task and form of the rate; a value for each seed."""
    yield "| task | method | on | form | first answers at the end | mean of training | lost |"
    yield "|---|---|---|---|---|---|---|"
    cells = defaultdict[tuple[str, ...], list[dict[str, Any]]](list)
    for line in sorted(lines, key=lambda line: Run.of(line).seed):
        if line["settings"] not in SETTINGS:
            cells[line["task"], line["method"], line["hardware"], line["settings"]].append(line)
    for names, seeds in cells.items():
        ends = ", ".join(f"{line['held_out'][-1]:.2f}" for line in seeds)
        means = ", ".join(f"{fmean(line['held_out'][1:]):.2f}" for line in seeds)
        steps = [lost_at(line["second"]) for line in seeds]
        lost = ", ".join(f"step {step}" for step in steps if step is not None)
        yield f"| {' | '.join(names)} | {ends} | {means} | {lost} |"


def draw(lines: Sequence[dict[str, Any]], path: Path) -> None:
    """Second answers of GRPO on the demo's task in fp32, with either settings."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(7, 4), height_ratios=(2, 1), sharex=True, layout="constrained"
    )
    for settings, (name, color) in SHOWN.items():
        run = Run(COMPANY, "grpo", settings, "cpu")
        line = next(line for line in lines if Run.of(line) == run)
        steps = range(1, len(line["second"]) + 1)
        upper.plot(steps, line["second"], color=color, marker="o", label=name)
        lower.plot(steps, line["evidence"], color=color, marker="o")
    upper.set_ylim(-0.03, 1.03)
    upper.set_ylabel("right after feedback")
    lower.set_ylabel("evidence e")
    lower.set_xlabel("training step")
    upper.legend(frameon=False, loc="center right")
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("outputs/study_lm"))
    parser.add_argument("--tasks", choices=(*SETS, "control"), default="final")
    parser.add_argument("--settings", choices=SETTINGS, default="recipe")
    parser.add_argument("--hardware", choices=("cpu", "cpu_bf16"), default="cpu")
    args = parser.parse_args()
    study = Study(args.out)
    if args.tasks == "control":
        runs = [
            Run(task, method, form, hardware, seed)
            for seed, (task, method, hardware), form in product(SEEDS, CONTROL, FORMS)
        ]
    else:
        tasks = product(SETS[args.tasks], METHODS)
        runs = [Run(task, method, args.settings, args.hardware) for task, method in tasks]
    for run, folder in study.missing(runs, RESULTS):
        line = train(study, run, folder)
        append_lines(RESULTS, [line])
        print(run, line["held_out"], "lost" if lost_at(line["second"]) else "", flush=True)


if __name__ == "__main__":
    main()
