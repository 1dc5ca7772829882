"""What is compared: first-turn accuracy in validation, or a metric by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from rltf_verl.texts import counted
from rltf_verl.tools.report.compare.run import Arm, Run, Series

FIRST_TURN = "first_turn"
LOGGED = "log/val/turn_1/acc"
_CORE = re.compile(r"val-core/(?P<source>.+)/acc/mean@\d+")


@dataclass(frozen=True)
class Quantity:
    """One number per step of every run."""

    name: str
    label: str
    of: Mapping[str, Series]
    """Name of the run -> its evaluations."""


def quantities(names: Sequence[str], arms: Sequence[Arm]) -> list[Quantity]:
    """`first_turn` gives one per validation set that all runs share.

    Raises:
        ValueError: a run lacks it, or has it at one step only.
    """
    runs = [run for arm in arms for run in arm.runs]
    found: list[Quantity] = []
    for name in dict.fromkeys(names):
        found += _first_turn(runs) if name == FIRST_TURN else [_by_name(name, runs)]
    for quantity in found:
        _curves_only(quantity, arms)
    return found


def first_turn_series(run: Run) -> dict[str, Series]:
    """Validation set -> first-turn accuracy: verl's metrics, else the episode log's."""
    logged = run.series(LOGGED)
    found = {source: run.series(name) for source, name in _sources(run).items()}
    return found or ({"validation": logged} if logged else {})


def _curves_only(quantity: Quantity, arms: Sequence[Arm]) -> None:
    for arm in arms:
        for run in arm.runs:
            if len(quantity.of[run.name]) < 2:
                (step,) = quantity.of[run.name]
                raise ValueError(
                    f"{arm.name}: {run.name} has {quantity.name} at step {step} only, and a curve"
                    " takes two points; trainer.test_freq says how often a run is validated"
                )


def _first_turn(runs: Sequence[Run]) -> list[Quantity]:
    """verl's metrics if all runs have them, else the episode logs' episodes: never one of this and
    one of that.
    """
    sources = [_sources(run) for run in runs]
    if all(sources):
        shared = [source for source in sources[0] if all(source in of for of in sources)]
        if not shared:
            raise ValueError(
                f"no validation set is common to all runs: {runs[0].name} has"
                f" {', '.join(sources[0])}"
            )
        several = len(shared) > 1
        return [
            Quantity(
                f"{FIRST_TURN}/{source}" if several else FIRST_TURN,
                f"first-turn accuracy, {source}",
                {run.name: run.series(of[source]) for run, of in zip(runs, sources, strict=True)},
            )
            for source in shared
        ]
    of_logs = {run.name: run.series(LOGGED) for run in runs}
    if all(of_logs.values()):
        return [Quantity(FIRST_TURN, "first-turn accuracy", of_logs)]
    raise ValueError(_why_not(runs, sources))


def _why_not(runs: Sequence[Run], sources: Sequence[Mapping[str, str]]) -> str:
    without = [run for run, of in zip(runs, sources, strict=True) if not of]
    neither = next((run for run in without if not run.series(LOGGED)), None)
    if neither is not None:
        return (
            f"{neither.name}: no first-turn accuracy of a validation in it (val-core/<data"
            " source>/acc/mean@n, or validation episodes in an episode log); choose another metric"
            " with --metric"
        )
    with_one = next(run for run in runs if not run.series(LOGGED))
    return (
        f"{without[0].name} has first-turn accuracy in its episode log only, {with_one.name} in"
        " verl's metrics only; give all runs with their episode logs"
    )


def _sources(run: Run) -> dict[str, str]:
    """Data source -> name of the metric."""
    matches = [match for name in sorted(run.names()) if (match := _CORE.fullmatch(name))]
    return {match["source"]: match[0] for match in matches}


def _by_name(name: str, runs: Sequence[Run]) -> Quantity:
    of = {run.name: run.series(name) for run in runs}
    for run in runs:
        if not of[run.name]:
            raise ValueError(f"--metric {name}: not in {run.name}; {_close(name, run.names())}")
    return Quantity(name, name, of)


def _close(name: str, known: set[str]) -> str:
    """Names like it, else those that hold its last part."""
    last = name.rsplit("/", maxsplit=1)[-1]
    near = (
        get_close_matches(name, sorted(known), n=5, cutoff=0.6)
        or sorted(k for k in known if last and last in k)[:5]
    )
    return (
        f"names like it: {', '.join(near)}"
        if near
        else f"it has {counted(len(known), 'metric')}, none with a name like it"
    )
