"""Pictures of a comparison, for papers: told apart by the colour-blind, in grey, and by line and
marker.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rltf_verl.texts import counted
from rltf_verl.tools.report.compare.numbers import ArmCurve, Panel

COLORS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)  # Okabe and Ito
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
"""Numbers of colours, markers and line styles have no common divisor: no two of 280 arms look the
same.
"""

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "rltf",
    "text.parse_math": False,
    "legend.fontsize": 8,
}
COUNTS = ("rollouts", "tokens")
"""Axes whose large numbers have a unit: 20 k, 3 M."""
MOST_MARKERS = 24
MOST_INSIDE = 4
"""Arms whose legend has room within the axes."""
DENSE = 60
"""Above this many points, single seeds are not drawn."""


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
        crowded = len(panel.arms) > MOST_INSIDE
        figure = Figure(figsize=(6.9 if crowded else 5.2, 3.5), dpi=300, layout="constrained")
        axes = figure.subplots()
        for curve in panel.arms:
            _arm(axes, curve)
        _budget(axes, panel)
        axes.set(xlabel=panel.axis_label, ylabel=panel.label)
        if panel.axis in COUNTS:
            axes.xaxis.set_major_formatter(EngFormatter())
        axes.grid(alpha=0.25, linewidth=0.5)
        if crowded:
            figure.legend(loc="outside right upper", **_legend(panel))
        else:
            axes.legend(**_legend(panel))
        figure.savefig(path.with_name(f"{path.name}.png"))
        figure.savefig(path.with_name(f"{path.name}.svg"), metadata={"Date": None})


def _arm(axes: Any, curve: ArmCurve) -> None:
    """Thin: seeds. Thick: their mean, with a band from the lowest to the highest."""
    look = {
        "color": COLORS[curve.place % len(COLORS)],
        "linestyle": LINES[curve.place % len(LINES)],
    }
    dense = len(curve.mean) >= DENSE
    x, mean, low, high = (
        [getattr(point, name) for point in curve.mean] for name in ("x", "mean", "low", "high")
    )
    axes.plot(
        x,
        mean,
        marker=MARKERS[curve.place % len(MARKERS)],
        markersize=4.5,
        linewidth=1.0 if dense else 1.6,
        markevery=_marked(len(curve.mean)),
        label=f"{curve.arm} ({counted(len(curve.seeds), 'seed')})",
        zorder=3,
        **look,
    )
    if len(curve.seeds) == 1:
        return
    axes.fill_between(x, low, high, color=look["color"], alpha=0.15, linewidth=0)
    for seed in [] if dense else curve.seeds:
        points = [point.x for point in seed], [point.y for point in seed]
        axes.plot(*points, color=look["color"], linewidth=0.6, alpha=0.4)


def _marked(num: int) -> list[int]:
    """Which of the points get a marker: the last one, and as many before it as can be told
    apart.
    """
    every = max(1, -(-num // MOST_MARKERS))
    return list(range((num - 1) % every, num, every))


def _budget(axes: Any, panel: Panel) -> None:
    """A line where all arms had spent the same, if some went on."""
    ends = {seed[-1].x for curve in panel.arms for seed in curve.seeds}
    if len(panel.arms) > 1 and len(ends) > 1:
        axes.axvline(panel.budget, color="0.35", linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        axes.annotate(
            "equal budget",
            (panel.budget, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7,
            color="0.35",
        )


def _legend(panel: Panel) -> dict[str, Any]:
    several = any(len(curve.seeds) > 1 for curve in panel.arms)
    return {
        "frameon": False,
        "title": "mean; band: lowest to highest seed" if several else None,
        "title_fontsize": 7,
        "alignment": "left",
        "handlelength": 3.2,
    }
