"""The tables of the study's pages and their picture: `python recipes/pretrained/study_report.py`.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. Those of results.jsonl are named
`task; start`, `pairs; task`, `exchange`, `chosen` and `last`; an interval is Student's over houses:
it covers how houses differ and the noise of a run, not other tasks or models. `law`, `unseen` and
`control` are those of the other programs.
"""

from __future__ import annotations

import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, product
from pathlib import Path
from typing import Any

import law
import matplotlib as mpl
import unseen_runs
from exchange import Point, Runs, halfway, of_dates, of_sql, rows
from intervals import Houses, contrast, half_of, mean_of
from study import (
    AGAIN,
    ARMS,
    CHOOSING,
    CHOSEN,
    CORE,
    EQUAL,
    EQUAL_AGAIN,
    EQUAL_SD,
    FEWER,
    LIKE,
    NULL,
    OF_CRITIQUES,
    PRESETS,
    RETRIES,
    SD_AGAIN,
    choice,
    choosing_run,
    finished,
    score,
)
from training import lines_of, pivot

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.lines import Line2D

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "demo"))

import matrices  # noqa: E402  (in the folder beside this one)

PAGES = (HERE / "STUDY.md", HERE / "OTHER_TASKS.md")
PICTURE = HERE.parents[1] / "docs/pictures/exchange.png"
MARK = re.compile(r"(<!-- table: (.*?) -->\n).*?(\n<!-- end -->)", re.DOTALL)
NAMES = {
    "grpo": "GRPO, one turn",
    "sft": "SFT on right last answers",
    "raft": "RAFT",
    "sd": "RLTF-SD",
    "fm": "RLTF-FM",
    "gold": "right answers, new ones",
    "gold, 256": "256 right answers",
    "gold, 64": "64 right answers",
    "gold, 16": "16 right answers",
}
"""Arm -> its name in the picture."""
OF_SQL = {
    "GRPO, one turn": "grpo",
    "SFT on right second answers": "sft",
    "RAFT": "raft",
    "RLTF-SD": "sd",
    "RLTF-FM": "fm",
    "gold queries": "gold",
}
"""The same arms in recipes/sql."""
RAFT, SD, GOLD = OF_CRITIQUES
COLORS = {"verdicts": "#999999", "texts": "#0072B2", "gold": "#E69F00"}
"""What was bought -> its mark in the picture."""
PAIRS = {
    "date": (("raft", NULL), (AGAIN, NULL)),
    "critique": ((RAFT, GOLD), (RAFT, SD), (SD, GOLD)),
    "fault": (
        (EQUAL_SD, "raft"),
        (EQUAL_SD, NULL),
        (EQUAL, NULL),
        (SD_AGAIN, EQUAL_AGAIN),
        (f"sd & {SD_AGAIN}", f"{EQUAL} & {EQUAL_AGAIN}"),
        (EQUAL_AGAIN, EQUAL),
        PRESETS,
        (PRESETS[0], "raft"),
    ),
}
"""Task -> arms that are compared beside SD's row; `&` is the mean of two seeds."""
HELD_OUT = 64
"""Problems of a validation."""
FEW_RIGHT = 5
"""Fewer right answers are counted: an interval of them says nothing."""
SQL = HERE.parent / "sql/results.jsonl"
BOUGHT = {
    ("date", "zero"): "dates",
    ("date", "mixed"): "dates, a quarter right at the start",
    ("critique", "zero"): "dates, critiques in words",
}
"""Task and start -> name in the exchange table."""
Line = Mapping[str, Any]


def at_end(line: Line) -> float:
    """Held-out accuracy of first answers after the last step."""
    return float(line["curve"][-1]["accuracy"])


def runs_of(lines: Sequence[Line], task: str, start: str, arm: str) -> dict[int, Line]:
    """House -> its run, but for those on which rates were chosen."""
    runs = (line for line in lines if line["house"] not in CHOOSING)
    keys, asked = ("task", "start", "arm"), (task, start, arm)
    return {line["house"]: line for line in runs if tuple(line[key] for key in keys) == asked}


def values_of(
    lines: Sequence[Line], task: str, start: str, arms: str, value: Callable[[Line], float]
) -> Houses:
    """House -> the value of its run; the mean of two seeds' (`sd & sd, another seed`)."""
    seeds = [runs_of(lines, task, start, arm) for arm in arms.split(" & ")]
    houses = sorted(set.intersection(*map(set, seeds)))
    return {house: statistics.fmean(value(runs[house]) for runs in seeds) for house in houses}


def table(lines: Sequence[Line], task: str, start: str) -> Iterator[str]:
    """An arm a row, compared with SD where it has learned something."""
    cells = {}
    for arm, (name, (value, points)) in product((*ARMS, *LIKE), kinds_of(task).items()):
        ours, sd = (values_of(lines, task, start, of, value) for of in (arm, "sd"))
        if ours:
            size = HELD_OUT * points * len(ours)
            right = round(HELD_OUT * points * sum(ours.values()))
            few = right < FEW_RIGHT
            cells[arm, "houses"] = [f"{len(ours)}"]
            cells[arm, name] = [f"{right} of {size}" if few else mean_of([*ours.values()])]
            cells[arm, f"{name}, minus sd"] = ["" if few else contrast(ours, sd)]
    return pivot("arm", cells)


def pairs(lines: Sequence[Line], task: str) -> Iterator[str]:
    """A row for each pair of `PAIRS`."""
    cells = {}
    for (ours, theirs), (name, (value, _)) in product(PAIRS[task], kinds_of(task).items()):
        sides = (values_of(lines, task, "zero", of, value) for of in (ours, theirs))
        cells[f"{ours} − {theirs}", name] = [contrast(*sides)]
    return pivot("difference", cells)


def kinds_of(task: str) -> dict[str, tuple[Callable[[Line], float], int]]:
    """Column -> its value of a run, and the validations that it is the mean of."""
    kinds = {"at the end": (at_end, 1), "mean of training": (score, 4)}
    return kinds if task in PAIRS else {"at the end": (at_end, 1)}


def counted(values: Sequence[float]) -> str:
    """`211 ± 24`: as `mean_of`, of counts."""
    if len(values) < 3:
        return ", ".join(f"{value:.0f}" for value in values)
    return f"{statistics.fmean(values):.0f} ± {half_of(values):.0f}"


def purchases(lines: Sequence[Line]) -> dict[str, Runs]:
    """Task -> the runs of each arm: dates, the tiny policy's matrices, and recipes/sql."""
    tasks: dict[str, dict[str, list[list[Point]]]] = {}
    for (of, name), arm in product(BOUGHT.items(), (*CORE, *FEWER, *OF_CRITIQUES)):
        runs = [*map(of_dates, runs_of(lines, *of, arm).values())]
        tasks.setdefault(name, {}).update({arm: runs} if runs else {})
    others = ("matrices", matrices.results(), of_dates), ("SQL", lines_of(SQL), of_sql)
    for name, made, points in others:
        for line in made:
            tasks.setdefault(name, {}).setdefault(line["arm"], []).append(points(line))
    return {task: runs for task, runs in tasks.items() if runs}


def exchange(lines: Sequence[Line]) -> Iterator[str]:
    """What each arm had bought half of the way."""
    parts = (rows(task, runs, counted) for task, runs in purchases(lines).items())
    return pivot("task, first answers right half of the way: arm", dict(chain(*parts)))


def chosen(lines: Sequence[Line]) -> Iterator[str]:
    """An arm a row, of those that have chosen: what it goes to the houses of the results with."""
    runs = Counter(line["arm"] for line in lines if line["house"] in CHOOSING)
    cells = {}
    for arm in (arm for arm in ARMS if choosing_run(arm) is None):
        rate, weight = choice(arm)
        cells[arm, "rate, weight, runs"] = [f"{rate:g}", f"{weight:g}", f"{runs[arm]}"]
    return pivot("arm", cells)


def last(lines: Sequence[Line]) -> Iterator[str]:
    """What the last policies of `dates` can do, an arm a row."""
    cells: dict[tuple[str, str], list[float]] = {}
    for arm in (*ARMS, *LIKE):
        for line in runs_of(lines, "date", "zero", arm).values():
            found = {f"pass@{k}": share for k, share in line.get("pass_at", {}).items()}
            found |= line.get("ability", {})
            found |= {f"retries, {part}": gain(line[part]) for part in RETRIES if part in line}
            for name, value in found.items():
                cells.setdefault((arm, name), []).append(value)
    return pivot(
        "arm", {of: [f"{mean_of(values)} ({len(values)})"] for of, values in cells.items()}
    )


def gain(shares: Sequence[float]) -> float:
    """From the first answers to those after the last retry."""
    return shares[-1] - shares[0]


def rows_of(name: str, lines: Sequence[Line]) -> Iterator[str]:
    """Of a table of the pages."""
    kind, *of = name.split("; ")
    if kind == "law":
        return law.table(lines_of(law.RESULTS))
    if kind in (others := {"unseen": unseen_runs.table, "control": unseen_runs.control_table}):
        return others[kind](lines_of(unseen_runs.RESULTS))
    if kind == "pairs":
        return pairs(lines, *of)
    alone = {"chosen": chosen, "exchange": exchange, "last": last}
    return table(lines, kind, *of) if of else alone[kind](lines)


def with_tables(page: str, lines: Sequence[Line]) -> str:
    """The page with the tables, some of these runs."""

    def written(mark: re.Match[str]) -> str:
        return "\n".join([mark[1], *rows_of(mark[2], lines), mark[3]])

    return MARK.sub(written, page)


def draw(lines: Sequence[Line], path: Path) -> None:
    """What was bought half of the way, a panel a task: runs, and their mean with its interval."""
    tasks = purchases(lines)
    figure, panels = plt.subplots(
        1, len(tasks), figsize=(14, 4.2), sharex=True, sharey=True, layout="constrained"
    )
    for panel, (task, runs) in zip(panels, tasks.items(), strict=True):
        goal, there = halfway(runs)
        for arm, points in there.items():
            name = OF_SQL.get(arm, arm).removesuffix(CHOSEN)
            if name in NAMES and arm + CHOSEN not in runs:
                row = [*NAMES].index(name)
                _draw_arm(panel, row, points)
                end = statistics.fmean(run[-1].right for run in runs[arm])
                most = len(runs[arm])
                some = f" ({len(points)} of {most})" if 0 < len(points) < most else ""
                panel.text(3e4, row, f"{end:.2f}{some}", size=8, va="center")
        panel.set(xscale="log", xlim=(8, 2e4), ylim=(len(NAMES) - 0.5, -0.5))
        panel.set_title(f"{task.replace(', ', chr(10), 1)}\nhalf of the way: {goal:.2f}", size=10)
        panel.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(range(len(NAMES)), NAMES.values())
    marks = [Line2D([], [], marker="D", ls="", color=color) for color in COLORS.values()]
    figure.legend(marks, COLORS, loc="outside upper center", ncols=len(marks), frameon=False)
    figure.supxlabel(
        "bought until half of the way: runs, mean, 95 % interval;"
        " right: at the end (and runs that got half of the way)",
        size=10,
    )
    figure.savefig(path)
    plt.close(figure)


def _draw_arm(panel: Any, row: int, points: Sequence[Point]) -> None:
    for n, (kind, color) in enumerate(COLORS.items()):
        values, y = [float(getattr(point, kind)) for point in points], row + 0.22 * (n - 1)
        if any(values):
            panel.plot(values, [y] * len(values), "o", color=color, alpha=0.5, ms=4)
        if any(values) and len(values) > 2:
            mean, half = statistics.fmean(values), half_of(values)
            sides = [[min(half, mean - 1)], [half]]
            panel.errorbar(mean, y, xerr=sides, fmt="D", color=color, capsize=2, ms=4)
    if not points:
        panel.text(10, row, "not reached", color="#888888", size=8, va="center")


def main() -> None:
    for page in PAGES:
        page.write_text(with_tables(page.read_text("utf-8"), finished()), "utf-8")
    draw(finished(), PICTURE)


if __name__ == "__main__":
    main()
