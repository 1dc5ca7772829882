"""The study's tables and picture, from results.jsonl: `python recipes/pretrained/study_report.py`.

Writes docs/pictures/study_lm.png and the tables between the marks of STUDY.md. Means over runs;
95 % intervals resample houses first and then the runs of each house, so that two seeds of one house
are not two houses.
"""

from __future__ import annotations

import math
import random
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, TypeVar

import matplotlib as mpl
from study import (
    ARMS,
    CONTROLS,
    FM_WEIGHTS,
    FOUR_HOUSES,
    HOUSES,
    RATES,
    STARTS,
    TUNING_HOUSE,
    finished,
)

mpl.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).resolve().parent
PAGE = HERE / "STUDY.md"
PICTURE = HERE.parents[1] / "docs" / "pictures" / "study_lm.png"
MARK = re.compile(
    r"(<!-- (?P<kind>table|above SFT): (?P<words>.*?) -->\n\n).*?(\n\n<!-- end -->)",
    re.DOTALL,
)
"""`<!-- table: date; zero; constant -->`, a table, `<!-- end -->`."""
LOOKS = {
    "grpo 1 turn n=8": ("#E69F00", "-"),
    "grpo n=2": ("#E69F00", "--"),
    "grpo n=8": ("#E69F00", ":"),
    "sft": ("#009E73", "-"),
    "raft": ("#009E73", "--"),
    "sd paper": ("#0072B2", ":"),
    "sd soft floor": ("#0072B2", "-"),
    "sd rejection w=1": ("#0072B2", "--"),
    "fm": ("#CC79A7", "-"),
    "sd soft floor + fm": ("#CC79A7", "--"),
    "sdpo": ("#000000", ":"),
    "sdpo, forward KL": ("#000000", "-"),
}
"""Arm -> colour (Okabe and Ito) and line; the other teachers are in the table only."""
AT_THE_END = ("entropy at the end", "wrong ones corrected at the end")
RESAMPLES = 10_000
Line = Mapping[str, Any]
T = TypeVar("T")


def budgets(family: str) -> tuple[int, ...]:
    """Answers sampled in training, up to what the arm with the fewest has."""
    return (512, 1024, 1536) if family == FOUR_HOUSES else (256, 512, 768)


def accuracy_at(line: Line, amount: float, axis: str = "answers") -> float:
    """Held-out accuracy of first answers at so many answers (or seconds), between two validations;
    the last one's beyond the end.
    """
    points = [(point[axis], point["accuracy"]) for point in line["curve"]]
    for (x, y), (later, there) in pairwise(points):
        if x <= amount <= later and later > x:
            return float(y + (there - y) * (amount - x) / (later - x))
    return float(points[-1][1])


def interval(by_house: Mapping[int, Sequence[T]], value: Callable[[T], float]) -> str:
    """`0.84 [0.71, 0.93]`; the mean alone of one house, nothing of none."""
    known = ([v for v in map(value, of) if not math.isnan(v)] for of in by_house.values())
    draw, houses = random.Random(0), [of for of in known if of]
    if not houses:
        return ""
    mean = statistics.fmean(chain.from_iterable(houses))
    if len(houses) < 2:
        return f"{mean:.2f}"
    means = sorted(
        statistics.fmean(
            number
            for numbers in draw.choices(houses, k=len(houses))
            for number in draw.choices(numbers, k=len(numbers))
        )
        for _ in range(RESAMPLES)
    )
    low, high = means[RESAMPLES * 25 // 1000], means[RESAMPLES * 975 // 1000]
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def by_arm(family: str, start: str, falls: bool) -> dict[str, dict[int, list[Line]]]:
    """Arm -> house -> its runs from this start, in the order of `ARMS`, controls last."""
    arms: dict[str, dict[int, list[Line]]] = {}
    for arm in ARMS | CONTROLS:
        houses: dict[int, list[Line]] = defaultdict(list)
        for line in finished():
            which = (line["family"], line["arm"], line["start"], line["falls"])
            if which == (family, arm, start, falls) and line["house"] in HOUSES:
                houses[line["house"]].append(line)
        if houses:
            arms[arm] = houses
    return arms


def table(family: str, start: str, falls: bool = False) -> str:
    """Markdown: an arm a line."""
    header = ["arm", "runs", *(f"{b} answers" for b in budgets(family)), "minutes", *AT_THE_END]
    lines = [f"| {' | '.join(header)} |", "|---" + "|---:" * (len(header) - 1) + "|"]
    for arm, houses in by_arm(family, start, falls).items():
        runs = [line for of_house in houses.values() for line in of_house]
        cells = [
            arm,
            str(len(runs)),
            *(interval(houses, partial(accuracy_at, amount=budget)) for budget in budgets(family)),
            f"{statistics.mean(line['seconds'] for line in runs) / 60:.1f}",
            *(mean_known(at_the_end(line, place) for line in runs) for place in (0, 1)),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def above_sft(family: str, start: str, falls: bool = False) -> str:
    """Markdown: by how much each arm with right answers only, or with SD, is above SFT in the same
    house with the same seed.
    """
    arms = by_arm(family, start, falls)
    sft = {(line["house"], line["seed"]): line for of in arms["sft"].values() for line in of}
    values: dict[str, Callable[[Line], float]] = {
        **{f"{budget} answers": partial(accuracy_at, amount=budget) for budget in budgets(family)},
        **{name: partial(at_the_end, place=place) for place, name in enumerate(AT_THE_END)},
    }
    rows = [f"| arm | {' | '.join(values)} |", f"|---|{'---:|' * len(values)}"]
    for arm in (arm for arm in arms if arm.startswith(("sd ", "raft"))):
        both = {
            house: [
                (line, sft[house, line["seed"]]) for line in lines if (house, line["seed"]) in sft
            ]
            for house, lines in arms[arm].items()
        }
        cells = (interval(both, partial(apart, value=value)) for value in values.values())
        rows.append(f"| {' | '.join([arm, *cells])} |")
    return "\n".join(rows)


def apart(pair: tuple[Line, Line], value: Callable[[Line], float]) -> float:
    """The first one's value less the second one's."""
    return value(pair[0]) - value(pair[1])


def at_the_end(line: Line, place: int) -> float:
    """Entropy (0), or the share of wrong answers that feedback corrects (1); NaN without any."""
    end = line["entropy_and_corrected_at_the_end"][place]
    return float("nan") if end is None else float(end)


def mean_known(values: Iterable[float]) -> str:
    """Of those that are numbers; empty without any."""
    known = [value for value in values if not math.isnan(value)]
    return f"{statistics.mean(known):.2f}" if known else ""


def rates_table() -> str:
    """Markdown: each arm's tuning runs, a column per rate."""
    found = {
        (line["arm"], line["rate"]): line for line in finished() if line["house"] == TUNING_HOUSE
    }
    lines = [f"| arm | {' | '.join(map(str, RATES))} |", f"|---|{'---:|' * len(RATES)}"]
    for arm in ARMS | FM_WEIGHTS:
        curves = [found[arm, rate]["curve"] if (arm, rate) in found else [] for rate in RATES]
        cells = [f"{c[-1]['accuracy']:.2f} after {c[-1]['answers']}" if c else "" for c in curves]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw() -> None:
    """Dates: mean accuracy over answers sampled and over seconds of training, a row per start."""
    figure, axes = plt.subplots(2, 2, figsize=(12, 8), dpi=110, sharey=True)
    for row, start in zip(axes, STARTS, strict=True):
        arms = by_arm("date", start, falls=False)
        for panel, axis in zip(row, ("answers", "seconds"), strict=True):
            for arm, (color, style) in LOOKS.items():
                if arm in arms:
                    runs = [line for of_house in arms[arm].values() for line in of_house]
                    panel.plot(*mean_curve(runs, axis), style, color=color, lw=2, label=arm)
            panel.grid(alpha=0.3)
        lines = chain.from_iterable(chain.from_iterable(of.values()) for of in arms.values())
        right = [line["curve"][0]["accuracy"] for line in lines]
        row[0].set_title(f"right at the start: {min(right):.2f} to {max(right):.2f}", loc="left")
        row[0].set(ylabel="first answers right, held out")
    for panel, label in zip(axes[1], ("answers sampled", "seconds of training"), strict=True):
        panel.set(xlabel=label)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncol=4, loc="lower center")
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.savefig(PICTURE)


def mean_curve(runs: Sequence[Line], axis: str) -> tuple[list[float], list[float]]:
    """The mean over runs at the places of the shortest run's validations."""
    shortest = min(runs, key=lambda line: line["curve"][-1][axis])["curve"]
    places = [point[axis] for point in shortest]
    return places, [statistics.fmean(accuracy_at(line, x, axis) for line in runs) for x in places]


def filled(text: str) -> str:
    """The page with each table made again."""

    def made(mark: re.Match[str]) -> str:
        family, start, rate = mark["words"].split("; ")
        make = table if mark["kind"] == "table" else above_sft
        return f"{mark[1]}{make(family, start, rate == 'falls')}{mark[4]}"

    return MARK.sub(made, text)


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    print(rates_table())
    draw()


if __name__ == "__main__":
    main()
