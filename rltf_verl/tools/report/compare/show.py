"""A comparison as tables, and as files for other programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rltf_verl.tools.report.compare.comparison import Comparison
from rltf_verl.tools.report.compare.numbers import AtBudget, Panel, SeedSpread, Whole
from rltf_verl.tools.report.terminal.console import Table, table

BELOW = "difference: to the first arm of the axis; * the seeds of the two do not overlap"


def whole_table(lines: Sequence[Whole]) -> Table:
    """A line per arm: the arms as they are, however long they went."""
    header = ("arm", "seeds", "at start", "highest", "at the end", "last step")
    return table(header, map(_whole, lines))


def _whole(w: Whole) -> tuple[object, ...]:
    return w.arm, len(w.runs), shown(w.start), shown(w.highest), shown(w.end), span(w.last_steps)


def budget_table(panels: Sequence[Panel]) -> Table:
    """A line per axis and arm, where all arms had spent the same; see `BELOW`."""
    lines = []
    for panel in panels:
        where = f"{panel.axis} {amount(panel.budget)}"
        for curve in panel.arms:
            lines.append((where, curve.arm, *_at(curve.at_budget)))
            where = ""  # an axis is named in its first line
    return table(("equal", "arm", "value", "at", "difference"), lines)


def _at(at: AtBudget | None) -> tuple[str | None, ...]:
    if at is None:
        return "no evaluation", None, None
    against = None if at.difference is None else f"{at.difference:+.3f}{' *' * bool(at.apart)}"
    return shown(at.value), span(at.spent), against


def shown(s: SeedSpread) -> str:
    """`0.625±0.012`: mean, and the standard deviation between seeds."""
    return number(s.mean) if s.std is None else f"{number(s.mean)}±{number(s.std)}"


def span(values: Sequence[float]) -> str:
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
    for name, lines in comparison.wholes.items():
        panels = [panel for panel in comparison.panels if panel.quantity == name]
        title = f"{panels[0].label if panels else name}: mean ± standard deviation of the seeds"
        whole = whole_table(lines)
        yield title, [whole, budget_table(panels)] if panels else [whole], BELOW if panels else ""


def write(out: Path, comparison: Comparison) -> None:
    """compare.json with every point of every seed, compare.md with the tables."""
    wholes = {name: [asdict(w) for w in lines] for name, lines in comparison.wholes.items()}
    facts = {
        "whole": wholes,
        "panels": [asdict(panel) for panel in comparison.panels],
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
    header, *rest = (
        [" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines
    )
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *rest])
