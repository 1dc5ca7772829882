"""An evaluation as tables and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rltf_verl.texts import counted
from rltf_verl.tools.report.evaluation.bootstrap import Estimate
from rltf_verl.tools.report.evaluation.results import Results

BLUE, ORANGE = "#0072B2", "#D55E00"  # Okabe and Ito: told apart by the colour-blind


def turn_table(results: Results) -> list[tuple[str, ...]]:
    """A header and a line per turn."""
    header = ("turn", "standing", "solved", "improvement", "format", "answers")
    return [
        header,
        *(
            (
                str(t.turn),
                shown(t.standing),
                shown(t.solved),
                shown(t.improvement, signed=True) if t.turn > 1 else "–",
                shown(t.format),
                str(t.played),
            )
            for t in results.turns
        ),
    ]


def round_table(results: Results) -> list[tuple[str, ...]]:
    """A header and a line per round of feedback, then all together; only a header without
    feedback.
    """
    header = ("round", "answers changed", "wrong → right", "right → wrong", "pairs")
    return [
        header,
        *(
            (
                "all" if r.round is None else str(r.round),
                shown(r.plasticity),
                shown(r.corrected),
                shown(r.spoiled),
                str(r.pairs),
            )
            for r in [*results.rounds[1:], *results.rounds[:1]]
        ),
    ]


def pass_table(results: Results) -> list[tuple[str, ...]]:
    """A header and a line per k."""
    header = ("k", "pass@k, first answers", "problems")
    return [header, *((str(k), shown(e), str(e.problems)) for k, e in results.pass_at.items())]


def notes(results: Results) -> list[str]:
    """What a reader of the tables must know."""
    fewest, most = results.samples
    each = "" if fewest == most else f"{fewest} to "
    said = [
        f"{counted(results.problems, 'problem')}, {each}{counted(most, 'episode')} each,"
        f" {results.sessions} in all; per cent, in brackets: 95 % intervals by bootstrap over"
        " problems"
    ]
    if results.ungraded:
        num = counted(results.ungraded, "answer")
        said.append(f"{num} could not be graded, and no number counts them")
    if results.grader_trouble:
        said.append(results.grader_trouble)
    if results.truncated:
        said.append(f"cut off at the token limit: {counted(results.truncated, 'answer')}")
    unavailable = results.stops.get("feedback_unavailable", 0)
    if unavailable:
        num = counted(unavailable, "episode")
        said.append(f"{num} ended early for want of feedback; the last answer counts")
    too_long = results.stops.get("prompt_too_long", 0)
    if too_long:
        num = counted(too_long, "episode")
        said.append(
            f"{num} ended early because the next prompt was too long; the last answer counts"
        )
    return said


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
            _line(
                axes,
                rounds,
                [t.solved for t in result.turns],
                "any answer so far",
                ORANGE,
                "s--",
                0.06,
            )
            _line(
                axes,
                rounds,
                [t.standing for t in result.turns],
                "the last answer so far",
                BLUE,
                "o-",
                0.0,
            )
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
    axes: Any,
    rounds: Sequence[int],
    values: Sequence[Estimate],
    label: str,
    color: str,
    style: str,
    shift: float,
) -> None:
    points = [(k + shift, e) for k, e in zip(rounds, values, strict=True) if e.value is not None]
    low = [
        e.value - (e.value if e.low is None else e.low) for _, e in points if e.value is not None
    ]
    high = [
        (e.value if e.high is None else e.high) - e.value for _, e in points if e.value is not None
    ]
    axes.errorbar(
        [x for x, _ in points],
        [e.value for _, e in points],
        yerr=[low, high],
        fmt=style,
        color=color,
        label=label,
        capsize=3,
        markersize=5,
    )
