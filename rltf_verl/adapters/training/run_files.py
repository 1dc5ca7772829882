"""The trainer's files next to verl's own: the episode log with its `run.json`, and what an earlier
process left.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ray
from omegaconf import DictConfig, OmegaConf
from ray.exceptions import RayError

from rltf_verl.adapters.metrics.row_log import RowLog
from rltf_verl.adapters.startup.machine import loggers_of
from rltf_verl.adapters.startup.stamp import checkpoints_in
from rltf_verl.jsonl import read_lines
from rltf_verl.objectives import Method
from rltf_verl.runlog.about import SIZES, read_about, write_about, write_missing
from rltf_verl.runlog.files import STAMP, set_aside_after
from rltf_verl.texts import counted

logger = logging.getLogger(__name__)

METRICS = "rltf_metrics.json"
"""File next to the weights of a checkpoint: metrics of its step."""

LAST_WRITE_S = 60.0
"""For the workers' last try at a disk that refused."""


def open_row_log(config: DictConfig, method: Method, tokenizer: Any) -> RowLog:
    """Write `run.json` and return the log of trained rows.

    Args:
        config: the whole trainer config.
        method: its objectives.
        tokenizer: decodes the tokens of logged rows.
    """
    rltf, log = method.config, method.config.episode_log
    if log.dir is not None:
        sizes = {key: OmegaConf.select(config, key) for key in SIZES}
        write_about(Path(log.dir), asdict(rltf), sizes, list(rltf.mentions.phrases))
    return RowLog(log, tokenizer, method.role_names)


def set_aside_later(config: DictConfig, log: str | None, step: int) -> None:
    """In a run that continues after `step`: set aside the episodes and checkpoints of later steps,
    and metrics that verl would erase.
    """
    if not config.trainer.val_only:
        _set_checkpoints_aside(Path(config.trainer.default_local_dir), step)
    if log and Path(log).is_dir():
        validates = bool(config.trainer.get("val_before_train", True))
        moved = set_aside_after(Path(log), step, validates=validates)
        if moved:
            files = counted(moved, "file")
            logger.info("episode log: moved %s of steps after %d to superseded/", files, step)
    if step > 0:
        keep_earlier_metrics(config)


def _set_checkpoints_aside(folder: Path, step: int) -> None:
    """Move later steps' checkpoints, which this run does not continue: none is its best or newest.
    Delete one whose writing was interrupted.
    """
    for later, path in checkpoints_in(folder):
        if later <= step:
            return
        if (path / STAMP).exists() and not (path / "data.pt").exists():
            shutil.rmtree(path)
            continue
        target = folder / "superseded" / str(path.stat().st_mtime_ns) / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        logger.warning("%s is of a later step than %d: moved to %s", path, step, target)


def file_log_path(config: DictConfig) -> Path | None:
    """The file of verl's file logger; None if the run has no such logger.

    verl 0.9.1 (`utils/tracking.py`, `FileLogger`) chooses the path while it opens, and so erases,
    the file.
    """
    if "file" not in loggers_of(config):
        return None
    path = os.getenv("VERL_FILE_LOGGER_PATH")
    if path is not None:
        return Path(path)
    root = Path(os.getenv("VERL_FILE_LOGGER_ROOT", ".")).expanduser()
    return root / str(config.trainer.project_name) / f"{config.trainer.experiment_name}.jsonl"


def _earlier(path: Path) -> Path:
    return path.with_name(f".{path.name}.earlier")


def keep_earlier_metrics(config: DictConfig) -> None:
    """In a resumed run: move the file away that verl is about to erase, or warn."""
    path = file_log_path(config)
    if path is None:
        return
    try:
        # one is there already if a process was killed before its first line
        if path.is_file() and not _earlier(path).exists():
            path.rename(_earlier(path))
    except OSError as error:
        what = "metrics of the earlier process, %s, cannot be moved and will be erased: %s"
        logger.warning(what, path, error)


class ContinuedMetrics:
    """verl's file logger in a resumed run: writes the earlier processes' lines first, each step
    once.

    Args:
        file: verl's logger, which has just opened its file.
        earlier: the lines.
        step: that the run resumed at; later ones are trained again.
        saved: metrics of that step, from its checkpoint: it is saved before they are logged.
    """

    def __init__(self, file: Any, earlier: Path, step: float, saved: Mapping[str, Any]) -> None:
        self._file, self._earlier, self._step = file, earlier, step
        self._rows: dict[int, dict[str, Any]] = {int(step): dict(saved)} if saved else {}
        for line in read_lines(earlier):
            if line["step"] <= step:
                self._rows[line["step"]] = self._rows.get(line["step"], {}) | line["data"]

    def log(self, data: Mapping[str, Any], step: int) -> None:
        """Write the metrics of a step."""
        if self._earlier.exists():
            first = self._rows.pop(step, {}) if step == self._step else {}
            for at, row in sorted(self._rows.items()):
                self._file.log(row, at)
            data = first | dict(data)
        self._file.log(data, step)
        self._earlier.unlink(missing_ok=True)

    def finish(self) -> None:
        """Close the file."""
        self._file.finish()


def continue_metrics(config: DictConfig, backends: dict[str, Any], step: int) -> None:
    """Give the backends of verl's `Tracking` the lines that `keep_earlier_metrics` moved away.

    Args:
        config: the whole trainer config.
        backends: which write to open files.
        step: that the run resumed at.
    """
    path = file_log_path(config)
    if path is None or isinstance(backends["file"], ContinuedMetrics):
        return
    if _earlier(path) in path.parent.glob(".*.earlier"):
        val_only = config.trainer.val_only  # it takes nothing back
        saved = {} if val_only else read_about(Path(str(config.trainer.resume_from_path)), METRICS)
        last = math.inf if val_only else step
        backends["file"] = ContinuedMetrics(backends["file"], _earlier(path), last, saved)


def warn_of_missing_episodes(manager: Any, folder: str | None) -> None:
    """At the end of a run, however it ends: name how many episodes the log lacks, and note it in
    the log.
    """
    if folder is None:
        return
    with suppress(RayError):  # a worker that died
        asked = [worker.missing_episodes.remote() for worker in manager.agent_loop_workers]
        num = sum(ray.get(asked, timeout=LAST_WRITE_S))
        if num:
            write_missing(Path(folder), num)
            logger.warning(
                "rltf.episode_log.dir=%s: %s missing in the log, because the disk was full or"
                " refused them, or the log had reached max_gb; free space before the next run",
                folder,
                counted(num, "episode is", "episodes are"),
            )
