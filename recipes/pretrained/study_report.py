"""The tables of STUDY.md and their pictures: `python recipes/pretrained/study_report.py`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. Those of results.jsonl are named
`task; start`, `seeds; task` and `chosen`; an interval is Student's over houses: it covers how
houses differ and the noise of a run, not other tasks or models. `law` and `unseen` are those of the
other programs.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import law
import matplotlib as mpl
import unseen_runs
from study import (
    ARMS,
    CHOOSING,
    EQUAL,
    EQUAL_AGAIN,
    EQUAL_SD,
    LIKE,
    NULL,
    NUM_STEPS,
    SD_AGAIN,
    choice,
    choosing_run,
    finished,
    score,
)
from training import lines_of

mpl.use("Agg")
from matplotlib import pyplot as plt

PAGE = Path(__file__).resolve().parent / "STUDY.md"
PICTURES = PAGE.parents[2] / "docs" / "pictures"
MARK = re.compile(r"(<!-- table: (.*?) -->\n).*?(\n<!-- end -->)", re.DOTALL)
COLORS = {
    "grpo": "#E69F00",
    "sft": "#009E73",
    "raft": "#000000",
    "sd": "#0072B2",
    "fm": "#CC79A7",
    "sd second_turn": "#56B4E9",
    "sd + fm": "#D55E00",
    "sdpo forward KL": "#999999",
    EQUAL: "#009E73",
    EQUAL_SD: "#0072B2",
}
"""Arm -> colour (Okabe and Ito); dashed where it has another arm's rate and weight."""
PANELS = {
    "date": "dates, an exact verifier",
    "form": "a verifier that also takes another form",
    "fault": "the same, and feedback after every answer",
}
"""Task -> title in the picture."""
T_95 = (math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t for 95 % on both sides; by degrees of freedom."""
AGAINST = (NULL, "sd")
"""Arms that the others are compared with."""
HEADER = ("arm", "houses", "at the end", "mean of training", *(f"minus {arm}" for arm in AGAINST))
ABILITIES = {"hellaswag": "HellaSwag", "truthfulqa": "TruthfulQA"}
"""Of `ability.py`, on the houses that have it."""
Line = Mapping[str, Any]
Houses = dict[int, Line]


def mean_of(values: Sequence[float], *, signed: bool = False) -> str:
    """`0.84 ± 0.05`: mean and half of its 95 % interval; of one value, itself."""
    sign = "+" if signed else ""
    mean = f"{statistics.fmean(values):{sign}.2f}"
    if len(values) < 2:
        return mean
    half = T_95[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean} ± {half:.2f}"


def at_end(line: Line) -> float:
    """Held-out accuracy of first answers after the last step."""
    return float(line["curve"][-1]["accuracy"])


def runs_of(lines: Sequence[Line], task: str, start: str, arm: str) -> Houses:
    """House -> its run, but for those on which rates were chosen."""
    runs = (line for line in lines if line["house"] not in CHOOSING)
    keys, asked = ("task", "start", "arm"), (task, start, arm)
    return {line["house"]: line for line in runs if tuple(line[key] for key in keys) == asked}


def difference(ours: Houses, theirs: Houses) -> str:
    """At the end, paired by the houses that both have; empty where there are none."""
    houses = ours.keys() & theirs if ours != theirs else ()
    values = [at_end(ours[house]) - at_end(theirs[house]) for house in houses]
    return mean_of(values, signed=True) if values else ""


def table(lines: Sequence[Line], task: str, start: str) -> Iterator[str]:
    """An arm a row; what is not trained is compared with what dates have learned."""
    by_arm = {arm: runs_of(lines, task, start, arm) for arm in (*ARMS, *LIKE)}
    by_arm = {arm: runs for arm, runs in by_arm.items() if runs}
    if not by_arm:
        yield "Not run yet: `make study-lm` goes on."
        return
    measured = any("ability" in line for line in by_arm.get(NULL, {}).values())
    abilities = ABILITIES if measured else {}
    header = [*HEADER, *abilities.values()]
    yield f"| {' | '.join(header)} |"
    yield "|---" + "|---:" * (len(header) - 1) + "|"
    others = "date" if task == "prompt" else task
    against = [runs_of(lines, others, start, arm) for arm in AGAINST]
    for arm, runs in by_arm.items():
        ends, means = ([value(run) for run in runs.values()] for value in (at_end, score))
        cells = [arm, str(len(runs)), mean_of(ends), mean_of(means)]
        cells += [difference(runs, theirs) for theirs in against]
        kept = [run["ability"] for run in runs.values() if "ability" in run]
        cells += [mean_of([one[name] for one in kept]) if kept else "" for name in abilities]
        yield f"| {' | '.join(cells)} |"


def seeds(lines: Sequence[Line], task: str) -> Iterator[str]:
    """A seed a row, then the mean of both on the houses that have both: SD beside SFT at its rate
    and weight.
    """
    yield f"| seed | houses | sd | {EQUAL} | difference |"
    yield "|---|---:|---:|---:|---:|"
    pairs = (("sd", EQUAL), (SD_AGAIN, EQUAL_AGAIN))
    ends = [[ends_of(runs_of(lines, task, "zero", arm)) for arm in pair] for pair in pairs]
    both = [
        {house: (one[house] + two[house]) / 2 for house in one.keys() & two}
        for one, two in zip(*ends, strict=True)
    ]
    for name, (ours, theirs) in zip(("first", "second", "both"), [*ends, both], strict=True):
        houses = sorted(ours.keys() & theirs)
        cells = [[by_house[house] for house in houses] for by_house in (ours, theirs)]
        apart = [ours[house] - theirs[house] for house in houses]
        if houses:
            shown = [*map(mean_of, cells), mean_of(apart, signed=True)]
            yield f"| {name} | {len(houses)} | {' | '.join(shown)} |"


def ends_of(runs: Houses) -> dict[int, float]:
    """House -> accuracy after the last step."""
    return {house: at_end(run) for house, run in runs.items()}


def chosen(lines: Sequence[Line]) -> Iterator[str]:
    """An arm a row, of those that have chosen: what it goes to the houses of the results with."""
    runs = Counter(line["arm"] for line in lines if line["house"] in CHOOSING)
    yield "| arm | rate | weight | runs |"
    yield "|---|---:|---:|---:|"
    for arm in (arm for arm in ARMS if choosing_run(arm) is None):
        rate, weight = choice(arm)
        yield f"| {arm} | {rate:g} | {weight:g} | {runs[arm]} |"


def rows_of(name: str, lines: Sequence[Line]) -> Iterator[str]:
    """Of a table of the page."""
    if name == "chosen":
        return chosen(lines)
    if name.startswith("seeds; "):
        return seeds(lines, name.removeprefix("seeds; "))
    if name == "law":
        return law.table(lines_of(law.RESULTS))
    if name in ("unseen", "control"):
        of = unseen_runs.table if name == "unseen" else unseen_runs.control_table
        return of(lines_of(unseen_runs.RESULTS))
    return table(lines, *name.split("; "))


def with_tables(page: str, lines: Sequence[Line]) -> str:
    """The page with the tables, some of these runs."""

    def written(mark: re.Match[str]) -> str:
        return "\n".join([mark[1], *rows_of(mark[2], lines), mark[3]])

    return MARK.sub(written, page)


def draw(lines: Sequence[Line], path: Path) -> None:
    """Mean accuracy over houses after so many steps, a panel per task."""
    figure, panels = plt.subplots(
        1, len(PANELS), figsize=(15, 5.5), dpi=90, sharey=True, layout="constrained"
    )
    for panel, (task, title) in zip(panels, PANELS.items(), strict=True):
        for arm, color in COLORS.items():
            curves = [run["curve"] for run in runs_of(lines, task, "zero", arm).values()]
            if curves:
                steps = [point["step"] for point in curves[0]]
                by_step = zip(*([point["accuracy"] for point in of] for of in curves), strict=True)
                means = [statistics.fmean(values) for values in by_step]
                style = {"color": color, "ls": "--" if arm in LIKE else "-", "lw": 2}
                panel.plot(steps, means, label=f"{arm}, {len(curves)} houses", **style)
        panel.set(xlabel="steps", xticks=range(0, NUM_STEPS + 1, 4), title=title)
        below = (0.5, -0.15)
        panel.legend(
            loc="upper center", bbox_to_anchor=below, ncols=2, frameon=False, fontsize="small"
        )
        panel.grid(alpha=0.3)
    panels[0].set(ylabel="first answers right, held out, mean")
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    PAGE.write_text(with_tables(PAGE.read_text("utf-8"), finished()), "utf-8")
    draw(finished(), PICTURES / "study_lm.png")


if __name__ == "__main__":
    main()
