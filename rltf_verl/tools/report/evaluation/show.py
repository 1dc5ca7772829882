"""An evaluation as tables and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rltf_verl.texts import counted
from rltf_verl.tools.report.evaluation.bootstrap import Estimate
from rltf_verl.tools.report.evaluation.results import Results
from rltf_verl.tools.report.terminal.console import Table, table

BLUE, ORANGE = "#0072B2", "#D55E00"  # Okabe and Ito: told apart by the colour-blind


def tables(results: Results) -> list[Table]:
    """Turns; rounds of feedback, then all together; ends of trajectories; pass@k. Without those
    that have no line.
    """
    all_rounds = [*results.rounds[1:], *results.rounds[:1]]
    made = [
        table(
            ("turn", "standing", "solved", "improvement", "format", "answers"),
            (
                (
                    *(t.turn, shown(t.standing), shown(t.solved)),
                    shown(t.improvement, signed=True) if t.turn > 1 else None,
                    *(shown(t.format), t.played),
                )
                for t in results.turns
            ),
        ),
        table(
            ("round", "answers changed", "wrong → right", "right → wrong", "pairs"),
            (
                (r.round or "all", *map(shown, (r.plasticity, r.corrected, r.spoiled)), r.pairs)
                for r in all_rounds
            ),
        ),
        table(
            ("end of the attempt", "attempts", "mean steps"),
            ((end, num, f"{steps:.1f}") for end, (num, steps) in results.ends.items()),
        ),
        table(
            ("k", "pass@k, first answers", "problems"),
            ((k, shown(e), e.problems) for k, e in results.pass_at.items()),
        ),
    ]
    return [lines for lines in made if len(lines) > 1]


def notes(results: Results) -> list[str]:
    """What a reader of the tables must know."""
    fewest, most = results.samples
    each = "" if fewest == most else f"{fewest} to "
    early = {"feedback_unavailable": "for want of feedback", "prompt_too_long": "at a long prompt"}
    lines = [
        f"{counted(results.problems, 'problem')}, {each}{counted(most, 'episode')} each,"
        f" {results.sessions} in all; per cent, in brackets: 95 % intervals by bootstrap over"
        " problems"
    ]
    if results.ungraded:
        lines.append(f"no number counts {counted(results.ungraded, 'answer')} without a grade")
    if results.grader_trouble:
        lines.append(results.grader_trouble)
    if results.truncated:
        lines.append(f"cut off at the token limit: {counted(results.truncated, 'answer')}")
    lines += [
        f"{counted(results.stops[stop], 'episode')} ended early {why}; the last answer counts"
        for stop, why in early.items()
        if stop in results.stops
    ]
    return lines


def shown(estimate: Estimate, signed: bool = False) -> str:
    """In per cent: `62.5 [51.0, 73.1]`."""
    if estimate.value is None:
        return "–"
    sign = "+" if signed else ""
    value = f"{100 * estimate.value:{sign}.1f}"
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} [{100 * estimate.low:{sign}.1f}, {100 * estimate.high:{sign}.1f}]"


def plot(results: Mapping[str, Results], path: Path) -> None:
    """Accuracy against rounds of feedback, one panel per data source.

    Raises:
        ValueError: matplotlib is missing.
    """
    try:
        import matplotlib as mpl
    except ImportError:
        raise ValueError(f"{path.name} needs matplotlib; pip install 'rltf-verl[plot]'") from None
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 10}):
        figure = Figure(figsize=(0.8 + 4.4 * len(results), 4.0), dpi=150, layout="constrained")
        panels = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
        for axes, (name, result) in zip(panels, results.items(), strict=True):
            rounds = [t.turn - 1 for t in result.turns]
            solved, standing = [t.solved for t in result.turns], [t.standing for t in result.turns]
            _line(axes, rounds, solved, 0.06, label="any answer so far", color=ORANGE, fmt="s--")
            _line(axes, rounds, standing, 0.0, label="the last answer so far", color=BLUE, fmt="o-")
            axes.set(
                xlabel="rounds of feedback",
                xticks=rounds,
                ylim=(-0.03, 1.03),
                title=f"{name}, {counted(result.problems, 'problem')}",
            )
            axes.grid(alpha=0.3)
        panels[0].set_ylabel("accuracy, mean over problems (95 % interval)")
        panels[0].legend(frameon=False)
        figure.savefig(path)


def _line(
    axes: Any, rounds: Sequence[int], values: Sequence[Estimate], shift: float, **look: str
) -> None:
    points = [(k + shift, e, e.value) for k, e in zip(rounds, values, strict=True)]
    drawn = [(x, value, e.low, e.high) for x, e, value in points if value is not None]
    low = [value - (value if low is None else low) for _, value, low, _ in drawn]
    high = [(value if high is None else high) - value for _, value, _, high in drawn]
    x, y = [x for x, *_ in drawn], [value for _, value, *_ in drawn]
    axes.errorbar(x, y, yerr=[low, high], capsize=3, markersize=5, **look)
