"""An evaluation as tables and a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rltf_verl.texts import counted
from rltf_verl.tools.report.evaluation.bootstrap import Estimate
from rltf_verl.tools.report.evaluation.results import OF_ROUNDS, OF_TURNS, Results
from rltf_verl.tools.report.terminal.console import Table, table

BLUE, ORANGE = "#0072B2", "#D55E00"  # Okabe and Ito: told apart by the colour-blind


def tables(results: Results) -> list[Table]:
    """Turns; the environment's own numbers; rounds of feedback, then all together; ends of
    trajectories; pass@k. Without those that have no line.
    """
    numbers = results.numbers
    turns: list[tuple[object, ...]] = []
    for k in range(1, results.num_turns + 1):
        of_turn = {name: numbers[f"turn_{k}/{name}"] for name in OF_TURNS}
        cells = [shown(number, name == "improvement") for name, number in of_turn.items()]
        turns.append((k, *cells[1:], of_turn["acc"].cases))
    own = [
        (k, *(shown(numbers[f"turn_{k}/{name}"]) for name in results.own))
        for k in range(1, results.num_turns + 1)
    ]
    # a round is the step from one answer to the next: one less than there are turns
    rounds: list[tuple[object, ...]] = []
    blocks = {str(k - 1): f"turn_{k}/revisions" for k in range(2, results.num_turns + 1)}
    for label, block in {**blocks, "all": "revisions"}.items():
        shares = [numbers[f"{block}/{name}"] for name in OF_ROUNDS]
        if shares[0].cases:
            rounds.append((label, *map(shown, shares), shares[0].cases))
    ends = [(end, num, f"{steps:.1f}") for end, (num, steps) in results.ends.items()]
    passes = [(k, shown(share), share.problems) for k, share in results.pass_at.items()]
    made = [
        table(("turn", *OF_TURNS[1:], "answers"), turns),
        *([table(("turn", *results.own), own)] if results.own else []),
        table(("round", "answers changed", "wrong → right", "right → wrong", "pairs"), rounds),
        table(("end of the attempt", "attempts", "mean steps"), ends),
        table(("k", "pass@k, first answers", "problems"), passes),
    ]
    return [lines for lines in made if len(lines) > 1]


def notes(results: Results) -> list[str]:
    """Remarks for a reader of the tables."""
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
            rounds = range(result.num_turns)
            _line(axes, result, "solved", 0.06, label="any answer so far", color=ORANGE, fmt="s--")
            _line(axes, result, "standing", 0, label="the last answer so far", color=BLUE, fmt="o-")
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


def _line(axes: Any, results: Results, name: str, shift: float, **look: str) -> None:
    numbers = [results.numbers[f"turn_{k + 1}/{name}"] for k in range(results.num_turns)]
    points = [(number.value, number.low, number.high) for number in numbers]
    value, low, high = np.array(points, dtype=np.float64).T  # None becomes NaN: not drawn
    x, bars = np.arange(results.num_turns) + shift, [value - low, high - value]
    axes.errorbar(x, value, yerr=bars, capsize=3, markersize=5, **look)
