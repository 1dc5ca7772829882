"""From the runs' files to results.json, the tables and the picture."""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch

from benchmarks.study import mechanism
from benchmarks.study.settings import ARMS

mpl.use("Agg")
from matplotlib import pyplot as plt

Record = dict[str, Any]
Arms = dict[str, dict[int, Record]]
"""arm -> seed -> what its run wrote."""

KEPT = (
    "step",
    "sessions",
    "sampled_tokens",
    "trained_tokens",
    "live_groups",
    "seconds",
    "acc",
    "acc_turn_2",
)
COLORS = {
    "grpo": "#D55E00",
    "sd": "#0072B2",
    "sft": "#E69F00",
    "fm 0.02": "#8FD3BC",
    "fm 0.1": "#009E73",
    "fm 0.5": "#00503A",
    "fm 0.1 derange": "#CC79A7",
    "fm 0.1 marginal": "#56B4E9",
    "none": "#999999",
    "fm": "#009E73",
    "derange": "#CC79A7",
    "marginal": "#56B4E9",
}
"""Okabe and Ito: told apart by the colour-blind."""
RESAMPLES = 10_000


def read_arms(folder: Path, order: Sequence[str]) -> Arms:
    """All finished runs of a folder."""
    arms: Arms = defaultdict(dict)
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text())
        arms[record["arm"]][record["seed"]] = record
    return {arm: arms[arm] for arm in order if arm in arms}


def write_report(out: Path, results: Path, picture: Path) -> None:
    """Write results.json and the picture, print the tables."""
    methods, marks = (
        read_arms(out / "runs", list(ARMS)),
        read_arms(out / "mechanism", mechanism.ARMS),
    )
    tuning = [json.loads(path.read_text()) for path in sorted((out / "tuning").rglob("*.json"))]
    record = {
        "machine": machine(),
        "tuning": tuning,
        "mechanism": [r for by in marks.values() for r in by.values()],
        "methods": [
            {**r, "curve": [_compact(p) for p in r["curve"]]}
            for by in methods.values()
            for r in by.values()
        ],
    }
    results.write_text(json.dumps(record).replace('{"arm"', '\n {"arm"') + "\n")
    draw(methods, marks, picture)
    print(method_table(methods), mechanism_table(marks), sep="\n\n")


def machine() -> str:
    """What the runs ran on."""
    info = Path("/proc/cpuinfo")
    names = [
        line.split(":")[1].strip()
        for line in info.read_text().splitlines()
        if line.startswith("model name")
    ]
    name = names[0] if names else platform.processor()
    return (
        f"{os.cpu_count()} cores of {name}, no GPU, Python {platform.python_version()}, torch"
        f" {torch.__version__}"
    )


def interval(values: Sequence[float], digits: int = 2) -> str:
    """Mean and 95 % bootstrap interval over policies."""
    mean = f"{statistics.mean(values):.{digits}f}"
    if len(values) < 2:
        return mean
    rng = random.Random(0)
    means = sorted(statistics.mean(rng.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return (
        f"{mean} [{means[RESAMPLES * 25 // 1000]:.{digits}f},"
        f" {means[RESAMPLES * 975 // 1000]:.{digits}f}]"
    )


def paired(
    ours: dict[int, Record],
    theirs: dict[int, Record],
    value: Callable[[Record], float],
    digits: int = 2,
) -> str:
    """Mean difference on the policies that both have, with its interval."""
    both = sorted(ours.keys() & theirs.keys())
    return (
        interval([value(ours[seed]) - value(theirs[seed]) for seed in both], digits) if both else ""
    )


def last(key: str) -> Callable[[Record], float]:
    """Of the last evaluation."""
    return lambda record: float(record["curve"][-1][key])


def on_the_way(record: Record) -> float:
    """Mean of the first-turn accuracies of all evaluations but the untrained policy's."""
    return statistics.mean(point["acc"] for point in record["curve"][1:])


def method_table(arms: Arms) -> str:
    """Markdown: means over policies with intervals."""
    lines = [
        (
            "| arm | n | first answer at the end | per policy | minus GRPO | mean on the way |"
            " second answer at the end | live groups | trained tokens per session |"
        ),
        "|---|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    for arm, by in arms.items():
        values = [last("acc")(r) for r in by.values()]
        ends = [r["curve"][-1] for r in by.values()]
        cells = [
            arm,
            str(len(by)),
            interval(values),
            " ".join(f"{v:.2f}" for v in values),
            paired(by, arms["grpo"], last("acc")) if arm != "grpo" and "grpo" in arms else "",
            interval([on_the_way(r) for r in by.values()]),
            interval([e["acc_turn_2"] for e in ends]),
            f"{statistics.mean(e['live_groups'] for e in ends):.0f}",
            f"{statistics.mean(e['trained_tokens'] / e['sessions'] for e in ends):.0f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def steps(record: Record) -> float:
    """SFT steps to the target, or all of them where it was not reached."""
    reached = record["steps_to_target"]
    return float(reached if reached is not None else record["every"] * (len(record["curve"]) - 1))


def mechanism_table(arms: Arms) -> str:
    """Markdown: SFT steps to the target, per arm."""
    lines = [
        (
            f"| before the labels | n | SFT steps to {mechanism.TARGET} | per policy | minus"
            " `derange` | mean on the way | loss per mark |"
        ),
        "|---|---:|---:|---|---:|---:|---:|",
    ]
    for arm, by in arms.items():
        losses = [r["marks_loss"] for r in by.values() if r["marks_loss"] is not None]
        cells = [
            arm,
            str(len(by)),
            interval([steps(r) for r in by.values()], 0),
            " ".join(
                f"{steps(r):.0f}" + ("" if r["steps_to_target"] is not None else "+")
                for r in by.values()
            ),
            paired(by, arms["derange"], steps, 0) if arm != "derange" and "derange" in arms else "",
            interval([statistics.mean(r["curve"][1:]) for r in by.values()]),
            f"{statistics.mean(losses):.2f}" if losses else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(methods: Arms, marks: Arms, picture: Path) -> None:
    """First answers over episodes, and over SFT steps after feedback modelling alone; what has no
    run has no panel.
    """
    panels = [
        (
            "methods",
            "training sessions",
            methods,
            lambda r: [(p["sessions"], p["acc"]) for p in r["curve"]],
        ),
        (
            "labels after feedback modelling alone",
            "SFT steps",
            marks,
            lambda r: [(i * r["every"], acc) for i, acc in enumerate(r["curve"])],
        ),
    ]
    panels = [panel for panel in panels if panel[2]]
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.5 * len(panels), 4), dpi=120, squeeze=False
    )
    for axis, (title, label, arms, points) in zip(axes[0], panels, strict=True):
        for arm, by in arms.items():
            _lines(axis, [points(record) for record in by.values()], arm)
        axis.set(xlabel=label, ylabel="first answer right, held out", title=title)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(picture)
    plt.close(figure)


def _lines(axis: Any, curves: Sequence[Sequence[tuple[float, float]]], arm: str) -> None:
    """Mean over policies, and every policy thin behind it."""
    for curve in curves:
        axis.plot(*zip(*curve, strict=True), color=COLORS[arm], lw=0.6, alpha=0.4)
    points = [
        tuple(map(statistics.mean, zip(*at, strict=True))) for at in zip(*curves, strict=False)
    ]
    axis.plot(
        *zip(*points, strict=True), color=COLORS[arm], lw=2, label=f"{arm} (n = {len(curves)})"
    )


def _compact(point: Record) -> Record:
    return {k: round(point[k], 4) for k in KEPT}
