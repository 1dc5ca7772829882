"""First answers by step, on the training's trades and on others: a line for each arm, the mean of
its seeds, and a point for each run.

    python recipes/sql/picture.py OUT.png [RUN]

RUN: the folder of one run, in the place of the table's; its shares are printed too.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt
from runs import ARMS, HERE, Line, curve
from training import lines_of  # `runs` has its folder

COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
"""Okabe and Ito: told apart by the colour-blind."""
TITLES = {"seen": "the training's trades", "unseen": "four others"}


def draw(lines: list[Line], out: Path) -> None:
    """The picture of these runs."""
    figure, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for panel, (trades, title) in zip(panels, TITLES.items(), strict=True):
        for arm, color in zip(ARMS, COLORS, strict=True):
            curves = [line["curve"] for line in lines if line["arm"] == arm]
            if not curves:
                continue
            steps = [point["step"] for point in curves[0]]
            shares = [[point[trades] for point in curve] for curve in curves]
            panel.plot(steps, [*map(fmean, zip(*shares, strict=True))], color=color, label=arm)
            for one in shares:
                panel.plot(steps, one, ".", color=color, markersize=4)
        panel.set(title=title, xlabel="step", ylim=(0, 1))
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("first answers that are right, held out")
    # Below the panels: a curve may be anywhere in them.
    figure.legend(
        *panels[1].get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=6
    )
    figure.savefig(out, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("run", type=Path, nargs="?")
    args = parser.parse_args()
    if args.run is None:
        draw(lines_of(HERE / "results.jsonl"), args.out)
        return
    points = curve(args.run)
    draw([{"arm": "RLTF-SD", "curve": points}], args.out)
    for point in points:
        print("step {step:2}: {seen:.2f} on seen trades, {unseen:.2f} on others".format(**point))


if __name__ == "__main__":
    main()
