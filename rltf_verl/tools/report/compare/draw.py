"""Pictures of a comparison, for papers: told apart by the colour-blind, in grey, and by line and
marker.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rltf_verl.tools.report.compare.numbers import ArmCurve, MeanPoint, Panel

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
    """Thin: seeds. Thick: their mean, in pieces of as many seeds; hollow where some seed has
    ended.
    """
    i = curve.place
    look = {"color": COLORS[i % len(COLORS)], "linestyle": LINES[i % len(LINES)]}
    dense = len(curve.mean) >= DENSE
    if len(curve.seeds) > 1 and not dense:
        for seed in curve.seeds:
            axes.plot(
                [p.x for p in seed],
                [p.y for p in seed],
                color=look["color"],
                linewidth=0.6,
                alpha=0.4,
            )
    labelled = False
    for num, group in groupby(curve.mean, key=lambda point: point.num):
        piece = list(group)
        whole = num == len(curve.seeds)
        _piece(
            axes,
            piece,
            look,
            MARKERS[i % len(MARKERS)],
            None if labelled else _name(curve),
            whole,
        )
        labelled = True
    if not labelled:  # the seeds have no step in common
        axes.plot([], [], label=_name(curve), marker=MARKERS[i % len(MARKERS)], **look)


def _piece(
    axes: Any,
    piece: Sequence[MeanPoint],
    look: dict[str, Any],
    marker: str,
    label: str | None,
    whole: bool,
) -> None:
    x = [point.x for point in piece]
    axes.plot(
        x,
        [point.mean for point in piece],
        marker=marker,
        markersize=4.5,
        markeredgewidth=1.0,
        linewidth=1.0 if len(piece) >= DENSE else 1.6,
        markerfacecolor=look["color"] if whole else "white",
        markevery=_marked(len(piece)),
        label=label,
        zorder=3,
        **look,
    )
    if piece[0].num > 1:
        low, high = [point.low for point in piece], [point.high for point in piece]
        axes.fill_between(x, low, high, color=look["color"], alpha=0.15, linewidth=0)


def _marked(num: int) -> list[int]:
    """Which of the points get a marker: the last one, and as many before it as can be told
    apart.
    """
    every = -(-num // MOST_MARKERS)
    return list(range((num - 1) % every, num, every))


def _name(curve: ArmCurve) -> str:
    return f"{curve.arm} ({len(curve.seeds)} seed{'s' * (len(curve.seeds) > 1)})"


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
    notes = []
    if any(point.num > 1 for curve in panel.arms for point in curve.mean):
        notes.append("mean; band: lowest to highest seed")
    if any(point.num < len(curve.seeds) for curve in panel.arms for point in curve.mean):
        notes.append("hollow: some seeds have ended")
    title = "\n".join(notes) or None
    return {
        "frameon": False,
        "title": title,
        "title_fontsize": 7,
        "alignment": "left",
        "handlelength": 3.2,
    }
