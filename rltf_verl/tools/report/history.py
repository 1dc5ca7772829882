"""Metrics by step, of verl's file logger or of a wandb history export, across the processes of a
run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rltf_verl.jsonl import read_lines

Metrics = dict[str, float]
History = dict[int, Metrics]

TRAINED = "training/global_step"
"""verl logs it where a step was trained; a validation before training has a record without it."""


def read_history(paths: Sequence[Path]) -> History:
    """The metrics of one run from the files of its processes, the earliest first."""
    return merged([process for path in paths for process in processes(read_records(path))])


def read_records(path: Path) -> list[tuple[int, Metrics]]:
    """(step, its numbers), in the order of the file. What is no finite number is left out.

    Raises:
        ValueError: the file cannot be read in the format of its suffix.
    """
    records = []
    for row in _rows(path):
        # verl's logger nests the metrics, a wandb export does not
        data = row["data"] if isinstance(row.get("data"), dict) else row
        step = _number(row.get("step") if data is not row else row.get("_step"))
        if step is not None:
            numbers = {name: _number(value) for name, value in data.items()}
            records.append(
                (int(step), {name: value for name, value in numbers.items() if value is not None})
            )
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


def _rows(path: Path) -> Iterable[Mapping[str, Any]]:
    if path.suffix not in (".csv", ".parquet"):
        return read_lines(path)
    import pandas as pd

    try:
        table = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    except ValueError as error:
        raise ValueError(f"{path}: cannot be read: {error}") from None
    rows: list[dict[str, Any]] = table.to_dict("records")
    return rows


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
