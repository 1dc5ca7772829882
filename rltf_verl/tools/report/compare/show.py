"""A comparison as tables, and as files for other programs."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rltf_verl.tools.report.compare.comparison import Comparison
from rltf_verl.tools.report.compare.elsewhere import MEANING, Score, elsewhere_table
from rltf_verl.tools.report.compare.numbers import AtBudget, Panel, Spread, Whole

Table = list[tuple[str, ...]]
BELOW = "difference: to the first arm of the axis; * the seeds of the two do not overlap"
COLUMNS = ("quantity", "axis", "budget", "number", "arm", "seeds", "mean", "min", "max", "std")


def whole_table(lines: Sequence[Whole]) -> Table:
    """A header and a line per arm: the arms as they are, however long they went."""
    header = ("arm", "seeds", "at start", "highest", "at the end", "last step")
    return [
        header,
        *(
            (
                w.arm,
                str(len(w.runs)),
                shown(w.start),
                shown(w.highest),
                shown(w.end),
                span(w.last_steps),
            )
            for w in lines
        ),
    ]


def budget_table(panels: Sequence[Panel]) -> Table:
    """A header and a line per axis and arm, where all arms had spent the same; see `BELOW`."""
    header = ("equal", "arm", "value", "at", "mean until", "difference")
    return [header, *(line for panel in panels for line in _lines(panel))]


def _lines(panel: Panel) -> Iterator[tuple[str, ...]]:
    for i, curve in enumerate(panel.arms):
        equal = f"{panel.axis} {amount(panel.budget)}" if i == 0 else ""
        yield (
            equal,
            curve.arm,
            *(_at(curve.at_budget) if curve.at_budget else ("no evaluation", "–", "–", "–")),
        )


def _at(at: AtBudget) -> tuple[str, ...]:
    against = "–" if at.difference is None else f"{at.difference:+.3f}"
    if at.apart is not None:
        against += " *" if at.apart else ""
    return (
        shown(at.value),
        span(at.spent),
        "–" if at.until is None else number(at.until.mean),
        against,
    )


def shown(s: Spread) -> str:
    """`0.625±0.012`: mean, and the standard deviation between seeds."""
    return number(s.mean) if s.std is None else f"{number(s.mean)}±{number(s.std)}"


def span(values: Sequence[float]) -> str:
    """`85`, or `80–85`."""
    low, high = amount(min(values)), amount(max(values))
    return low if low == high else f"{low}–{high}"


def number(value: float) -> str:
    """Of a quantity."""
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"


def amount(value: float) -> str:
    """Of an axis: whole, or three digits."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.3g}"


def write(
    out: Path,
    found: Comparison,
    scores: Sequence[Score] = (),
) -> None:
    """compare.json with every point of every seed, compare.csv with the numbers of the tables,
    compare.md with the tables.
    """
    facts = {
        "whole": {name: [asdict(w) for w in lines] for name, lines in found.wholes.items()},
        "panels": [asdict(p) for p in found.panels],
        "left_out": found.left_out,
        "filled_in": found.filled,
        "elsewhere": [asdict(score) for score in scores],
    }
    (out / "compare.json").write_text(
        json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    with (out / "compare.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(_rows(found.wholes, found.panels))
    (out / "compare.md").write_text(_page(found, scores), encoding="utf-8")


def _page(found: Comparison, scores: Sequence[Score]) -> str:
    """The tables in Markdown, for a README or an issue."""
    parts = []
    for name, lines in found.wholes.items():
        parts += [
            f"**{name}**: mean ± standard deviation of the seeds",
            _marked(whole_table(lines)),
        ]
        own = [panel for panel in found.panels if panel.quantity == name]
        parts += [_marked(budget_table(own)), BELOW] if own else []
    if scores:
        parts += ["**outside training**", _marked(elsewhere_table(scores)), MEANING]
    return "\n\n".join([*parts, *found.remarks]) + "\n"


def _marked(table: Table) -> str:
    """In Markdown; an arm's name comes from a command line and a task's from a file."""
    lines = [[" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in table]
    rule = ["---", *["---:"] * (len(lines[0]) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]])


def _rows(
    wholes: Mapping[str, Sequence[Whole]], panels: Sequence[Panel]
) -> Iterator[tuple[object, ...]]:
    for name, lines in wholes.items():
        for w in lines:
            for what, s in (("start", w.start), ("highest", w.highest), ("end", w.end)):
                yield name, "", "", what, w.arm, *_numbers(s)
    for panel in panels:
        for curve in panel.arms:
            place = (panel.quantity, panel.axis, panel.budget)
            if curve.at_budget is not None:
                yield *place, "at_budget", curve.arm, *_numbers(curve.at_budget.value)
                if curve.at_budget.until is not None:
                    yield *place, "mean_until_budget", curve.arm, *_numbers(curve.at_budget.until)


def _numbers(s: Spread) -> tuple[object, ...]:
    return len(s.seeds), s.mean, s.low, s.high, "" if s.std is None else s.std
