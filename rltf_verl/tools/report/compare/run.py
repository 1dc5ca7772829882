"""Runs and arms (runs that differ in their seed), read from disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rltf_verl.tools.report.compare.arguments import arms_of
from rltf_verl.tools.report.compare.log_steps import PREFIX, LogStep, read_log
from rltf_verl.tools.report.history import Metrics, read_history
from rltf_verl.tools.report.run_files import Place, run_files

Series = Mapping[int, float]
"""Step -> value; steps ascend."""


@dataclass(frozen=True)
class Run:
    """What is known of one run."""

    name: str
    """As the user wrote it."""
    metrics: Mapping[int, Metrics]
    log: Mapping[int, LogStep]

    def series(self, name: str) -> Series:
        """A metric, of the episode log if its name begins with `log/`; empty if there is none."""
        steps: Mapping[int, Mapping[str, float]] = self.metrics
        if name.startswith(PREFIX):
            steps = {step: found.values for step, found in self.log.items()}
        return {step: values[name] for step, values in steps.items() if name in values}

    def names(self) -> set[str]:
        """Of all metrics."""
        logged = (name for found in self.log.values() for name in found.values)
        return {name for values in self.metrics.values() for name in values}.union(logged)


@dataclass(frozen=True)
class Arm:
    """Runs of one method."""

    name: str
    runs: tuple[Run, ...]


def read_arms(arguments: Sequence[str]) -> list[Arm]:
    """Raises ValueError: a run is not there, or holds nothing."""
    return [Arm(name, tuple(map(read_run, places))) for name, places in arms_of(arguments).items()]


def read_run(place: Place) -> Run:
    """Raises ValueError: it is not there, or holds nothing."""
    name = ",".join(map(str, place))
    files = run_files(place)
    run = Run(name, read_history(files.metrics), read_log(files.log) if files.log else {})
    if not run.names():
        raise ValueError(f"{name}: no metrics in it; its files are empty")
    return run
