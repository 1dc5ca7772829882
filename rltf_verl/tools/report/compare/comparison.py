"""From arms to panels, and notes on what a reader must know. Compared is first-turn accuracy in
validation, or a metric by its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

import pandas as pd

from rltf_verl.registry import require_choice
from rltf_verl.texts import counted
from rltf_verl.tools.report.compare.axes import SOURCES, axis_of
from rltf_verl.tools.report.compare.numbers import Panel, evaluations, mean_curve, panel
from rltf_verl.tools.report.compare.run import Arm, Quantity, RunTable

FIRST_TURN = "first_turn"
LOGGED = "log/val/turn_1/acc"
# `val-core/openai/gsm8k/acc/mean@4`: a data source may have slashes
_CORE = re.compile(r"val-core/(?P<source>.+)/acc/mean@\d+")


@dataclass
class Comparison:
    """All numbers of a comparison."""

    wholes: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Label of a quantity -> its evaluations (`numbers.evaluations`), whatever was spent."""
    panels: list[Panel] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Omitted item -> reason."""
    filled: dict[str, str] = field(default_factory=dict)
    """Steps that an axis has no number of -> what is taken instead."""

    @property
    def remarks(self) -> list[str]:
        """Remarks for a reader of the tables, a line each."""
        left_out = [f"left out: {of}: {why}" for of, why in self.left_out.items()]
        return [*left_out, *(f"filled in: {of}: {why}" for of, why in self.filled.items())]


def compare(arms: Sequence[Arm], axes: Sequence[str], metrics: Sequence[str]) -> Comparison:
    """Raises ValueError: an axis or a metric that is not there, or a run with a single
    evaluation.
    """
    comparison = Comparison()
    for name in axes:
        require_choice("--x", name, SOURCES)
    taken = {name: axis_of(name, arms) for name in dict.fromkeys(axes)}
    for quantity in quantities(metrics, arms):
        points = evaluations(quantity, arms)
        comparison.wholes[quantity.label] = points
        comparison.left_out |= _late_starts(quantity.name, points)
        for name, axis in taken.items():
            drawn = axis if isinstance(axis, str) else panel(quantity, axis, arms)
            if isinstance(drawn, str):
                comparison.left_out[f"--x {name}"] = drawn
                continue
            comparison.panels.append(drawn)
            comparison.left_out |= {
                f"{arm} in --x {name}": why for arm, why in drawn.without.items()
            }
            comparison.left_out |= _apart_in_steps(drawn)
            comparison.filled |= {} if isinstance(axis, str) else axis.filled
    return comparison


def _late_starts(quantity: str, points: pd.DataFrame) -> dict[str, str]:
    """Runs whose first evaluation is later than that of others: their start is no start."""
    begins = points.groupby("run", sort=False)["step"].first()
    why = f"it has none; others begin at step {begins.min()}"
    late = begins[begins > begins.min()]
    return {f"{quantity} of {run} before step {step}": why for run, step in late.items()}


def _apart_in_steps(drawn: Panel) -> dict[str, str]:
    """Evaluations that the mean leaves out."""
    notes = {}
    for arm, points in drawn.points.groupby("arm", sort=False):
        steps = points["step"].unique()
        out = sorted({*steps} - {*mean_curve(points).index})
        if out:
            where = f"{len(out)} of {len(steps)} steps in the mean of {drawn.quantity} of {arm}"
            notes[where] = f"not all of its seeds were evaluated there (the first is step {out[0]})"
    return notes


def file_names(drawn: Sequence[Panel]) -> list[str]:
    """The pictures' names, without suffix; no two are equal."""
    names = [re.sub(r"[^\w@.]+", "_", panel.quantity) + f".{panel.axis}" for panel in drawn]
    # two metrics may differ in signs that no file name holds
    times = [names[:k].count(name) for k, name in enumerate(names)]
    return [f"{name}.{k + 1}" if k else name for name, k in zip(names, times, strict=True)]


def quantities(names: Sequence[str], arms: Sequence[Arm]) -> list[Quantity]:
    """`first_turn` gives one per validation set that all runs share.

    Raises:
        ValueError: a run lacks it, or has it at one step only.
    """
    runs = [run for arm in arms for run in arm.runs]
    taken: list[Quantity] = []
    for name in dict.fromkeys(names):
        taken += _first_turn(runs) if name == FIRST_TURN else [_by_name(name, runs)]
    for quantity in taken:
        _curves_only(quantity, arms)
    return taken


def _curves_only(quantity: Quantity, arms: Sequence[Arm]) -> None:
    for arm in arms:
        for run in arm.runs:
            if len(quantity.of[run.name]) < 2:
                (step,) = quantity.of[run.name].index
                raise ValueError(
                    f"{arm.name}: {run.name} has {quantity.name} at step {step} only, and a curve"
                    " takes two points; trainer.test_freq says how often a run is validated"
                )


def _first_turn(runs: Sequence[RunTable]) -> list[Quantity]:
    """verl's metrics if all runs have them, else the episode logs' episodes: never one of this and
    one of that.
    """
    sources = [_sources(run) for run in runs]
    shared = [source for source in sources[0] if all(source in of for of in sources)]
    if shared:
        return [_of_source(source, runs, sources, len(shared) > 1) for source in shared]
    of_logs = {run.name: run.series(LOGGED) for run in runs}
    without = [name for name, series in of_logs.items() if series.empty]
    if without:
        had = " ".join(
            f"{run.name} has {', '.join(of) or 'none'};"
            for run, of in zip(runs, sources, strict=True)
        )
        raise ValueError(
            "no first-turn accuracy of a validation is common to all runs"
            f" (val-core/<data source>/acc/mean@n): {had} no episode log with a validation in"
            f" {without[0]}; choose another metric with --metric"
        )
    return [Quantity(FIRST_TURN, "first-turn accuracy", of_logs)]


def _of_source(
    source: str, runs: Sequence[RunTable], sources: Sequence[Mapping[str, str]], several: bool
) -> Quantity:
    series = {run.name: run.series(of[source]) for run, of in zip(runs, sources, strict=True)}
    name = f"{FIRST_TURN}/{source}" if several else FIRST_TURN
    return Quantity(name, f"first-turn accuracy, {source}", series)


def _sources(run: RunTable) -> dict[str, str]:
    """Data source -> name of the metric."""
    matches = filter(None, map(_CORE.fullmatch, sorted(run.steps)))
    return {match["source"]: match[0] for match in matches}


def _by_name(name: str, runs: Sequence[RunTable]) -> Quantity:
    of = {run.name: run.series(name) for run in runs}
    for run in runs:
        if of[run.name].empty:
            raise ValueError(f"--metric {name}: not in {run.name}; {_close(name, set(run.steps))}")
    return Quantity(name, name, of)


def _close(name: str, names: set[str]) -> str:
    """Names like it, else those that hold its last part."""
    last = name.rsplit("/", maxsplit=1)[-1]
    near = get_close_matches(name, sorted(names), n=5)
    near = near or sorted(known for known in names if last and last in known)[:5]
    if near:
        return f"names like it: {', '.join(near)}"
    return f"it has {counted(len(names), 'metric')}, none with a name like it"
