"""From arms to panels and to notes on what a reader must know."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from rltf_verl.registry import require_choice
from rltf_verl.tools.report.compare.axes import MEASURES, axis_of
from rltf_verl.tools.report.compare.numbers import Panel, Whole, panel, whole
from rltf_verl.tools.report.compare.quantity import quantities
from rltf_verl.tools.report.compare.run import Arm


@dataclass
class Comparison:
    """All numbers of a comparison."""

    wholes: dict[str, list[Whole]] = field(default_factory=dict)
    """Quantity -> its arms."""
    panels: list[Panel] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """What is not shown -> why."""
    filled: dict[str, str] = field(default_factory=dict)
    """Steps that an axis has no number of -> what is taken instead."""

    @property
    def remarks(self) -> list[str]:
        """What a reader of the tables must know, a line each."""
        return [
            f"{what}: {of}: {why}"
            for what, told in (("left out", self.left_out), ("filled in", self.filled))
            for of, why in told.items()
        ]


def compare(arms: Sequence[Arm], axes: Sequence[str], metrics: Sequence[str]) -> Comparison:
    """Raises ValueError: an axis or a metric that is not there, or a run with a single
    evaluation.
    """
    found = Comparison()
    for name in axes:
        require_choice("--x", name, MEASURES)
    taken = {name: axis_of(name, arms) for name in dict.fromkeys(axes)}
    for quantity in quantities(metrics, arms):
        found.wholes[quantity.name] = [whole(quantity, arm) for arm in arms]
        found.left_out |= _late_starts(quantity.name, found.wholes[quantity.name])
        for name, axis in taken.items():
            drawn = axis if isinstance(axis, str) else panel(quantity, axis, arms)
            if isinstance(drawn, str):
                found.left_out[f"--x {name}"] = drawn
                continue
            found.panels.append(drawn)
            found.left_out |= {f"{arm} in --x {name}": why for arm, why in drawn.without.items()}
            found.left_out |= _apart_in_steps(drawn)
            found.filled |= {} if isinstance(axis, str) else axis.filled
    return found


def _late_starts(quantity: str, lines: Sequence[Whole]) -> dict[str, str]:
    """Runs whose first evaluation is later than that of others: their start is no start."""
    begins = {
        run: step for line in lines for run, step in zip(line.runs, line.first_steps, strict=True)
    }
    first = min(begins.values())
    return {
        f"{quantity} of {run} before step {step}": f"it has none; others begin at step {first}"
        for run, step in begins.items()
        if step > first
    }


def _apart_in_steps(drawn: Panel) -> dict[str, str]:
    """Evaluations that the mean leaves out."""
    told = {}
    for curve in drawn.arms:
        steps = {point.step for seed in curve.seeds for point in seed}
        out = sorted(steps - {point.step for point in curve.mean})
        if out:
            told[
                f"{len(out)} of {len(steps)} steps in the mean of {drawn.quantity} of {curve.arm}"
            ] = f"not all of its seeds were evaluated there (the first is step {out[0]})"
    return told


def file_names(drawn: Sequence[Panel]) -> list[str]:
    """Of their pictures, without suffix; no two are equal."""
    names = [re.sub(r"[^\w@.]+", "_", panel.quantity) + f".{panel.axis}" for panel in drawn]
    times = [names[:k].count(name) for k, name in enumerate(names)]
    return [f"{name}.{k + 1}" if k else name for name, k in zip(names, times, strict=True)]
