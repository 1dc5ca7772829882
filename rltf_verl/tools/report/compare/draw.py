"""Pictures of a comparison, for papers: told apart by the colour-blind, in grey, and by line and
marker.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from rltf_verl.texts import counted
from rltf_verl.tools.report.compare.numbers import Panel, mean_curve

# Okabe and Ito's, which colour-blind readers can tell apart.
COLORS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
"""Numbers of colours, markers and line styles have no common divisor: no two of 280 arms look the
same.
"""

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    # text stays text; with the salt and no date, the same picture has the same bytes
    "svg.fonttype": "none",
    "svg.hashsalt": "rltf",
    # a name may have a `$`
    "text.parse_math": False,
    "legend.fontsize": 8,
}
COUNTS = ("rollouts", "tokens")
"""Axes whose large numbers have a unit: 20 k, 3 M."""
MOST_MARKERS = 24


def draw(panel: Panel, path: Path) -> None:
    """Write `path`.png and `path`.svg.

    Raises:
        ValueError: matplotlib is missing.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise ValueError("pictures need matplotlib; pip install 'rltf-verl[plot]'") from None
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.9, 3.5), dpi=300, layout="constrained")
        axes = figure.subplots()
        for name, points in panel.points.groupby("arm", sort=False):
            _arm(axes, name, points)
        _budget(axes, panel)
        axes.set(xlabel=panel.axis_label, ylabel=panel.label)
        if panel.axis in COUNTS:
            axes.xaxis.set_major_formatter(EngFormatter())
        axes.grid(alpha=0.25, linewidth=0.5)
        # next to the axes: a legend of many arms would hide the curves
        figure.legend(loc="outside right upper", **_legend(panel))
        figure.savefig(path.with_name(f"{path.name}.png"))
        figure.savefig(path.with_name(f"{path.name}.svg"), metadata={"Date": None})


def _arm(axes: Any, name: str, points: pd.DataFrame) -> None:
    """Thin: seeds. Thick: their mean, with a band from the lowest to the highest."""
    place, seeds = points["place"].iloc[0], points.groupby("run", sort=False)
    color, curve = COLORS[place % len(COLORS)], mean_curve(points)
    axes.plot(
        curve["x"],
        curve["mean"],
        color=color,
        linestyle=LINES[place % len(LINES)],
        marker=MARKERS[place % len(MARKERS)],
        markersize=4.5,
        linewidth=1.6,
        markevery=max(1, len(curve) // MOST_MARKERS),
        label=f"{name} ({counted(len(seeds), 'seed')})",
        zorder=3,
    )
    if len(seeds) > 1:
        axes.fill_between(curve["x"], curve["low"], curve["high"], color=color, alpha=0.15, lw=0)
        for _, seed in seeds:
            axes.plot(seed["x"], seed["y"], color=color, linewidth=0.6, alpha=0.4)


def _budget(axes: Any, panel: Panel) -> None:
    """A line where all arms had spent the same, if some went on."""
    ends = panel.points.groupby("run")["x"].last()
    if panel.points["arm"].nunique() > 1 and ends.nunique() > 1:
        axes.axvline(panel.budget, color="0.35", linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        axes.annotate(
            "equal budget",
            (panel.budget, 1),
            # across by the axis' own numbers, up by shares of its height
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7,
            color="0.35",
        )


def _legend(panel: Panel) -> dict[str, Any]:
    several = panel.points["run"].nunique() > panel.points["arm"].nunique()
    return {
        "frameon": False,
        "title": "mean; band: lowest to highest seed" if several else None,
        "title_fontsize": 7,
        "alignment": "left",
        "handlelength": 3.2,
    }
