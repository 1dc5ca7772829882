"""A comparison as tables, and as files for other programs; with scores on tasks outside training:
results of lm-evaluation-harness (`results_….json`) and logs of Inspect (`--log-format json`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rltf_verl.tools.report.compare.comparison import Comparison
from rltf_verl.tools.report.compare.numbers import AtBudget, Panel, Spread, Whole
from rltf_verl.tools.report.terminal.console import Table, table

MEANING = (
    "change: against the first model of the task, ± standard error as if the two were independent"
)
BELOW = "difference: to the first arm of the axis; * the seeds of the two do not overlap"


@dataclass(frozen=True)
class Score:
    """A model's score on a task."""

    model: str
    task: str
    metric: str
    value: float
    stderr: float | None


def whole_table(lines: Sequence[Whole]) -> Table:
    """A line per arm: the arms as they are, however long they went."""
    return table(
        ("arm", "seeds", "at start", "highest", "at the end", "last step"),
        (
            (w.arm, len(w.runs), *map(shown, (w.start, w.highest, w.end)), span(w.last_steps))
            for w in lines
        ),
    )


def budget_table(panels: Sequence[Panel]) -> Table:
    """A line per axis and arm, where all arms had spent the same; see `BELOW`."""
    lines = (
        ("" if k else f"{panel.axis} {amount(panel.budget)}", curve.arm, *_at(curve.at_budget))
        for panel in panels
        for k, curve in enumerate(panel.arms)
    )
    return table(("equal", "arm", "value", "at", "mean until", "difference"), lines)


def _at(at: AtBudget | None) -> tuple[str | None, ...]:
    if at is None:
        return "no evaluation", None, None, None
    against = None if at.difference is None else f"{at.difference:+.3f}{' *' * bool(at.apart)}"
    until = None if at.until is None else number(at.until.mean)
    return shown(at.value), span(at.spent), until, against


def elsewhere_table(scores: Sequence[Score]) -> Table:
    """A line per task and model, in the order given; see `MEANING`."""
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.task, score.metric), []).append(score)
    lines = (
        (s.task, s.metric, s.model, f"{s.value:.3f}", _change(group[0], s))
        for group in groups.values()
        for s in group
    )
    return table(("task", "metric", "model", "score", "change"), lines)


def _change(before: Score, score: Score) -> str | None:
    if score is before:
        return None
    change = f"{score.value - before.value:+.3f}"
    if before.stderr is None or score.stderr is None:
        return change
    return f"{change} ± {math.hypot(before.stderr, score.stderr):.3f}"


def shown(s: Spread) -> str:
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


def sections(
    comparison: Comparison, scores: Sequence[Score]
) -> Iterator[tuple[str, list[Table], str]]:
    """Title, tables, and the line below them."""
    for name, lines in comparison.wholes.items():
        panels = [panel for panel in comparison.panels if panel.quantity == name]
        title = f"{panels[0].label if panels else name}: mean ± standard deviation of the seeds"
        whole = whole_table(lines)
        yield title, [whole, budget_table(panels)] if panels else [whole], BELOW if panels else ""
    if scores:
        yield "outside training", [elsewhere_table(scores)], MEANING


def write(out: Path, comparison: Comparison, scores: Sequence[Score] = ()) -> None:
    """compare.json with every point of every seed, compare.md with the tables."""
    facts = {
        "whole": {name: [asdict(w) for w in lines] for name, lines in comparison.wholes.items()},
        "panels": [asdict(p) for p in comparison.panels],
        "left_out": comparison.left_out,
        "filled_in": comparison.filled,
        "elsewhere": [asdict(score) for score in scores],
    }
    (out / "compare.json").write_text(
        json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    parts = [
        part
        for title, tables, below in sections(comparison, scores)
        for part in (f"**{title}**", *map(_markdown, tables), below)
    ]
    page = "\n\n".join(filter(None, [*parts, *comparison.remarks])) + "\n"
    (out / "compare.md").write_text(page, encoding="utf-8")


def _markdown(lines: Table) -> str:
    """An arm's name comes from a command line and a task's from a file."""
    cells = [[" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines]
    rule = ["---", *["---:"] * (len(cells[0]) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [cells[0], rule, *cells[1:]])


def read_scores(arguments: Sequence[str]) -> list[Score]:
    """The scores in `NAME=FILE` arguments; the first NAME is the model before training.

    Raises:
        ValueError: a file is neither a result of lm-evaluation-harness nor a log of Inspect, or
            holds no score.
    """
    return [score for argument in arguments for score in _read(argument)]


def _read(argument: str) -> list[Score]:
    name, equals, path = argument.partition("=")
    if not (name and equals):
        raise ValueError(f"--elsewhere {argument}: write NAME=FILE")
    try:
        facts = json.loads(Path(path).read_text("utf-8"))
        scores = list(_scores(name, facts))
    except (UnicodeDecodeError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(
            f"--elsewhere {argument}: neither a results_….json of lm-evaluation-harness nor a log"
            f" of Inspect as json ({type(error).__name__})"
        ) from error
    if not scores:
        raise ValueError(f"--elsewhere {argument}: there is no score in it")
    return scores


def _scores(model: str, facts: Mapping[str, Any]) -> Iterator[Score]:
    if "eval" in facts:  # Inspect
        for scorer in (facts["results"] or {}).get("scores", []):
            numbers = {name: number["value"] for name, number in scorer["metrics"].items()}
            stderr = numbers.pop("stderr", None)
            for metric, value in numbers.items():
                yield Score(model, facts["eval"]["task"], metric, float(value), stderr)
        return
    for task, numbers in facts["results"].items():  # lm-evaluation-harness: "acc,none"
        for key, value in numbers.items():
            metric, comma, chosen = key.partition(",")
            if comma and not metric.endswith("_stderr"):
                stderr = numbers.get(f"{metric}_stderr,{chosen}")
                has_error = isinstance(stderr, float)  # "N/A" for some metrics
                shown = metric if chosen == "none" else key
                yield Score(model, task, shown, float(value), stderr if has_error else None)
