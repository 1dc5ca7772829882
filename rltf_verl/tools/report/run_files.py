"""The files of a run: metrics of verl's file logger or a wandb history, and the episode log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rltf_verl.runlog.files import EVALUATION, folders_of, log_files

Place = tuple[Path, ...]
"""Place of one run: a folder or a file, or several parts of it, the earliest process first."""

_NO_NAMES = {
    *("", "run", "checkpoints", "checkpoint", "ckpts", "ckpt", "ck", "episodes", "metrics"),
    *("outputs", "history", "log", "logs"),
}


@dataclass(frozen=True)
class RunFiles:
    """Files found of one run."""

    metrics: tuple[Path, ...]
    """The earliest process first."""
    log: Path | None
    """Folder of the episode log."""


def run_files(place: Place) -> RunFiles:
    """Raises ValueError: a part is not there, holds nothing to compare, or more than one run."""
    parts = [_part(path) for path in place]
    logs = [part.log for part in parts if part.log is not None]
    # each part may bring metrics of another process; a log is of the whole run
    if len(logs) > 1:
        raise ValueError(f"{logs[0]} and {logs[1]}: two episode logs; a run has one")
    return RunFiles(
        tuple(path for part in parts for path in part.metrics), logs[0] if logs else None
    )


def run_name(path: Path) -> str:
    """The folder or file of a run that distinguishes it: `a/sd/checkpoints/episodes` -> `sd`."""
    path = path.resolve()
    name = path.stem if path.is_file() else path.name
    names = [name, *(parent.name for parent in path.parents)]
    return next((name for name in names if name.lower() not in _NO_NAMES), str(path))


def metrics_near(log: Path) -> tuple[Path, ...]:
    """The metrics of the run that an episode log is of, where they are in the two folders above it
    or where verl writes them by default; of several runs' files the one that has the run's name.
    None for the log of an evaluation, which may lie in a run's folder.
    """
    if (log.resolve().parent / EVALUATION).exists():
        return ()
    for folder in log.resolve().parents[:2]:
        files = _metric_files(folder) or _beside(folder)
        if files:
            files = [file for file in files if file.stem == run_name(log)] or files
            return tuple(files) if len(files) == 1 else ()
    return ()


def _part(path: Path) -> RunFiles:
    if path.is_file():
        if not _holds_metrics(path):
            raise ValueError(
                f"{path}: no metrics in it; neither lines of verl's file logger nor of a wandb"
                " history with _step"
            )
        return RunFiles((path,), None)
    if not path.is_dir():
        raise ValueError(f"{path}: no such file or folder")
    # a log's own files are JSON lines too, and no metrics
    if log_files(path):
        return RunFiles((), path)
    folders = list(folders_of(path))
    logs = [folder for folder in folders if log_files(folder)]
    if len(logs) > 1:
        raise ValueError(
            f"{path}: holds several runs, with episode logs in {logs[0]} and {logs[1]}; name each"
        )
    metrics = _one_run(
        path, [file for folder in folders for file in _metric_files(folder)] or _beside(path)
    )
    if not metrics and not logs:
        raise ValueError(
            f"{path}: no metrics in it; neither of verl's file logger nor of wandb, and no"
            " episode log"
        )
    return RunFiles(metrics, logs[0] if logs else None)


def _metric_files(folder: Path) -> list[Path]:
    if log_files(folder):
        return []
    return [path for path in sorted(folder.glob("*.jsonl")) if _holds_metrics(path)]


def _beside(folder: Path) -> list[Path]:
    """verl's default places: `checkpoints/<project>/<experiment>/` and
    `<project>/<experiment>.jsonl`.
    """
    folder = folder.resolve()
    if folder.parent.parent.name != "checkpoints":
        return []
    path = folder.parents[2] / folder.parent.name / f"{folder.name}.jsonl"
    return [path] if path.is_file() and _holds_metrics(path) else []


def _one_run(top: Path, files: Sequence[Path]) -> tuple[Path, ...]:
    if len(files) > 1:
        first, second, *_ = (path.relative_to(top) for path in files)
        raise ValueError(
            f"{top}: holds several runs, or parts of one ({first} and {second}); name the files,"
            " those of one run joined by commas"
        )
    return tuple(files)


def _holds_metrics(path: Path) -> bool:
    """By its first line: a file may have gigabytes."""
    with path.open("rb") as file:
        line = file.readline()
    try:
        record = json.loads(line)
    except ValueError:
        return False
    return isinstance(record, dict) and ({"step", "data"} <= record.keys() or "_step" in record)
