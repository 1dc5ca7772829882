"""Metrics by step, of verl's file logger or of a wandb history, across the processes of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeGuard

from rltf_verl.jsonl import read_lines

Metrics = dict[str, float]
History = dict[int, Metrics]

TRAINED = "training/global_step"
"""verl logs it where a step was trained; a validation before training has a record without it."""


def read_history(paths: Sequence[Path]) -> History:
    """The metrics of one run from the files of its processes, the earliest first."""
    return merged([process for path in paths for process in processes(read_records(path))])


def read_records(path: Path) -> list[tuple[int, Metrics]]:
    """(step, its numbers), in the order of the file; finite numbers only."""
    records = []
    for row in read_lines(path):
        # verl's logger nests the metrics, a wandb history does not
        nested = isinstance(row.get("data"), dict)
        data, step = (row["data"], row.get("step")) if nested else (row, row.get("_step"))
        if _is_number(step):
            numbers = {name: float(value) for name, value in data.items() if _is_number(value)}
            records.append((int(step), numbers))
    return records


def merged(processes: Iterable[History]) -> History:
    """A process that was resumed at step s counts from there on, and what earlier ones did after s
    does not.

    Its first record is that of the validation at s, or of the training of s + 1 (without
    `trainer.val_before_train`). One that trained nothing (`trainer.val_only`, or killed before)
    took nothing back, and is left out.
    """
    history: History = {}
    for process in processes:
        first = min(process)
        # it trained nothing: a validation of a checkpoint takes nothing back
        if history and len(process) == 1 and TRAINED not in process[first]:
            continue
        # a process that validates first logs that under the step it resumed at
        resumed_at = first - 1 if TRAINED in process[first] else first
        history = {step: metrics for step, metrics in history.items() if step <= resumed_at}
        for step, metrics in process.items():
            history[step] = history.get(step, {}) | metrics
    return dict(sorted(history.items()))


def processes(records: Iterable[tuple[int, Metrics]]) -> list[History]:
    """The processes in a file: one that was put together of several has steps that go back."""
    histories: list[History] = []
    before = math.inf
    for step, metrics in records:
        if step < before:
            histories.append({})
        histories[-1][step] = histories[-1].get(step, {}) | metrics
        before = step
    return histories


def _is_number(value: object) -> TypeGuard[float]:
    is_bool = isinstance(value, bool)
    return isinstance(value, (int, float)) and not is_bool and math.isfinite(value)
