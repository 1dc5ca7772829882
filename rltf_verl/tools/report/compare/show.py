"""A comparison as tables, and as files for other programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from rltf_verl.tools.report.compare.comparison import Comparison
from rltf_verl.tools.report.compare.numbers import Panel, at_budget
from rltf_verl.tools.report.terminal.console import Table, table

BELOW = "difference: to the first arm of the axis; * the seeds of the two do not overlap"


def whole_table(points: pd.DataFrame) -> Table:
    """A line per arm: the arms as they are, however long they went."""
    lines = []
    for arm, of_arm in points.groupby("arm", sort=False):
        runs = of_arm.groupby("run", sort=False)
        y, last_steps = runs["y"], runs["step"].last()
        numbers = (shown(y.first()), shown(y.max()), shown(y.last()), span(last_steps))
        lines.append((arm, len(last_steps), *numbers))
    return table(("arm", "seeds", "at start", "highest", "at the end", "last step"), lines)


def budget_table(panels: Sequence[Panel]) -> Table:
    """A line per axis and arm, where all arms had spent the same; see `BELOW`."""
    lines: list[tuple[object, ...]] = []
    for panel in panels:
        where = f"{panel.axis} {amount(panel.budget)}"
        for arm, point in at_budget(panel).items():
            if point is None:
                lines.append((where, arm, "no evaluation", None, None))
            else:
                against = None if point.difference is None else f"{point.difference:+.3f}"
                mark = " *" if point.apart else ""
                numbers = (shown(point.value), span(point.spent), against and against + mark)
                lines.append((where, arm, *numbers))
            where = ""  # an axis is named in its first line
    return table(("equal", "arm", "value", "at", "difference"), lines)


def shown(seeds: pd.Series) -> str:
    """`0.625±0.012`: mean, and the standard deviation between seeds."""
    mean = number(seeds.mean())
    return mean if len(seeds) == 1 else f"{mean}±{number(seeds.std())}"


def span(values: pd.Series) -> str:
    """`85`, or `80–85`."""
    low, high = amount(min(values)), amount(max(values))
    return low if low == high else f"{low}–{high}"


def number(value: float) -> str:
    """A quantity's number."""
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"


def amount(value: float) -> str:
    """A number of an axis: whole, or three digits."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def sections(comparison: Comparison) -> Iterator[tuple[str, list[Table], str]]:
    """Title, tables, and the line below them."""
    for label, points in comparison.wholes.items():
        panels = [panel for panel in comparison.panels if panel.label == label]
        tables = [whole_table(points), *([budget_table(panels)] if panels else [])]
        title = f"{label}: mean ± standard deviation of the seeds"
        yield title, tables, BELOW if panels else ""


def write(out: Path, comparison: Comparison) -> None:
    """compare.json with every point of every seed, compare.md with the tables."""
    panels = []
    for panel in comparison.panels:
        points = panel.points.drop(columns="place").to_dict("records")
        panels.append({**vars(panel), "budget": panel.budget, "points": points})
    facts = {
        "panels": panels,
        "left_out": comparison.left_out,
        "filled_in": comparison.filled,
    }
    text = json.dumps(facts, indent=1, ensure_ascii=False)
    (out / "compare.json").write_text(f"{text}\n", encoding="utf-8")
    parts: list[str] = []
    for title, tables, below in sections(comparison):
        parts += [f"**{title}**", *map(_markdown, tables), below]
    page = "\n\n".join(filter(None, [*parts, *comparison.remarks]))
    (out / "compare.md").write_text(f"{page}\n", encoding="utf-8")


def _markdown(lines: Table) -> str:
    """An arm's name comes from a command line."""
    # a `|` or a line break would end a cell
    header, *rest = (
        [" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines
    )
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *rest])
