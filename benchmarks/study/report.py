"""From the runs' files to results.json, the table and the picture."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import torch

from benchmarks.study.settings import LEVELS

mpl.use("Agg")
from matplotlib import pyplot as plt

Curve = list[dict[str, Any]]
Arms = dict[str, list[Curve]]

KEPT = ("step", "sessions", "attempts", "sampled_tokens", "trained_tokens", "seconds", "acc", "acc_turn_2")
NAMES = {"grpo_single": "GRPO, one turn", "grpo": "GRPO", "sd": "SD", "fm": "FM", "sd_fm": "SD + FM", "sft": "SFT"}
COLORS = {
    "grpo_single": "#999999", "grpo": "#D55E00", "sd": "#0072B2", "fm": "#009E73", "sd_fm": "#CC79A7", "sft": "#E69F00",
}  # fmt: skip
"""Okabe and Ito: told apart by the colour-blind."""


def read_arms(out: Path) -> Arms:
    """Curves of all finished runs, by arm, in the order of their seeds."""
    arms: dict[str, list[Curve]] = defaultdict(list)
    for path in sorted((out / "runs").glob("*.json")):
        record = json.loads(path.read_text())
        arms[record["arm"]].append(record["curve"])
    return dict(arms)


def write_report(out: Path, results: Path, picture: Path) -> None:
    """Write results.json and the picture, print the table."""
    arms = read_arms(out)
    budgets = budgets_of(arms)
    compact = {arm: [[_compact(point) for point in curve] for curve in curves] for arm, curves in arms.items()}
    text = json.dumps({"machine": machine(), "budgets": budgets, "arms": compact})
    results.write_text(text.replace("[[", "\n[[").replace("], [{", "],\n [{") + "\n")
    draw(arms, picture)
    print(table(arms, budgets))


def machine() -> str:
    """What the runs ran on."""
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    name = names[0] if names else platform.processor()
    return f"{os.cpu_count()} cores of {name}, no GPU, Python {platform.python_version()}, torch {torch.__version__}"


def budgets_of(arms: Arms) -> dict[str, float]:
    """Sessions and trained tokens that every run has reached."""
    return {key: min(curve[-1][key] for curves in arms.values() for curve in curves) for key in X_LABELS}


X_LABELS = {"sessions": "training sessions", "trained_tokens": "trained tokens"}


def value_at(curve: Curve, key: str, budget: float, what: str = "acc") -> float:
    """Held-out accuracy when `budget` of `key` was used, on the line between two evaluations."""
    for before, after in pairwise(curve):
        if after[key] >= budget:
            share = (budget - before[key]) / (after[key] - before[key])
            return float(before[what] + share * (after[what] - before[what]))
    return float(curve[-1][what])


def mean_to(curve: Curve, sessions: float) -> float:
    """Mean of the held-out accuracies of all evaluations up to `sessions`, without the untrained policy's."""
    return statistics.mean(point["acc"] for point in curve[1:] if point["sessions"] <= sessions)


def table(arms: Arms, budgets: dict[str, float]) -> str:
    """Markdown: mean ± standard deviation over seeds, and the seeds."""
    sessions, tokens = budgets["sessions"], budgets["trained_tokens"]
    lines = [
        f"| feedback | method | first answer at {sessions:.0f} sessions | its seeds | mean on the way there "
        f"| first answer at {tokens / 1000:.0f}k trained tokens | second answer at {sessions:.0f} sessions "
        "| trained tokens per session |",
        "|---|---|---:|---|---:|---:|---:|---:|",
    ]
    for arm in sorted(arms, key=_order):
        level, method = arm.split("-", 1)
        lines.append(f"| {level} | {method} | {' | '.join(_cells(arms[arm], sessions, tokens))} |")
    return "\n".join(lines)


def _cells(curves: Sequence[Curve], sessions: float, tokens: float) -> list[str]:
    ends = [value_at(c, "sessions", sessions) for c in curves]
    per_session = statistics.mean(c[-1]["trained_tokens"] / c[-1]["sessions"] for c in curves)
    return [
        _spread(ends),
        " ".join(f"{end:.2f}" for end in ends),
        _spread([mean_to(c, sessions) for c in curves]),
        _spread([value_at(c, "trained_tokens", tokens) for c in curves]),
        _spread([value_at(c, "sessions", sessions, "acc_turn_2") for c in curves]),
        f"{per_session:.0f}",
    ]


def draw(arms: Arms, picture: Path) -> None:
    """First-turn accuracy over sessions and over trained tokens, one row per feedback level."""
    levels = [level for level in LEVELS if any(arm.startswith(level) for arm in arms)]
    figure, axes = plt.subplots(len(levels), 2, figsize=(10, 3.1 * len(levels)), dpi=120, sharey=True, squeeze=False)
    for row, level in zip(axes, levels, strict=True):
        for axis, key in zip(row, X_LABELS, strict=True):
            for method in NAMES:
                own = "full" if method == "grpo_single" else level  # hears no feedback: the same at every level
                if curves := arms.get(f"{own}-{method}"):
                    _band(axis, curves, key, method)
            axis.set(xlabel=X_LABELS[key], title=f"feedback: {level}")
            axis.grid(alpha=0.3)
        row[0].set_ylabel("first answer right, held out")
        row[1].legend(frameon=False, fontsize=8)
        row[0].set_xlim(0, max(c[-1]["sessions"] for a, cs in arms.items() if "single" not in a for c in cs))
    figure.tight_layout()
    figure.savefig(picture)
    plt.close(figure)


def _band(axis: Any, curves: Sequence[Curve], key: str, method: str) -> None:
    """Mean over seeds and the range of the seeds."""
    points = list(zip(*curves, strict=False))
    xs = [statistics.mean(p[key] for p in at) for at in points]
    ys = [[p["acc"] for p in at] for at in points]
    axis.plot(xs, [statistics.mean(y) for y in ys], color=COLORS[method], label=NAMES[method])
    axis.fill_between(xs, [min(y) for y in ys], [max(y) for y in ys], color=COLORS[method], alpha=0.15, lw=0)


def _order(arm: str) -> tuple[int, int, str]:
    level, method, *_ = arm.split("-")
    return list(LEVELS).index(level), list(NAMES).index(method), arm


def _compact(point: dict[str, Any]) -> dict[str, Any]:
    return {k: round(point[k], 4) for k in KEPT}


def _spread(values: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{spread}"
