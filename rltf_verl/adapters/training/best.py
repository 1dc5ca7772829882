"""The checkpoint with the best validation (`rltf.keep_best`), which verl's limit on the number of
checkpoints does not delete.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from rltf_verl.adapters.console import MARK
from rltf_verl.jsonl import write_whole
from rltf_verl.registry import require_choice
from rltf_verl.runlog.about import read_about

logger = logging.getLogger(__name__)

BEST = "best_global_step_"
RECORD = "rltf_best.json"
"""In the folder: metric and value."""


class BestCheckpoint:
    """Keeps one checkpoint in `best_global_step_N`, next to verl's.

    Args:
        folder: `trainer.default_local_dir`.
        metric: of a validation; larger is better. None keeps nothing.
    """

    def __init__(self, folder: Path, metric: str | None) -> None:
        self._folder, self._metric = folder, metric
        self._best, self._known = -math.inf, metric is None
        for path in folder.glob(f"{BEST}*/{RECORD}"):
            record = read_about(path.parent, RECORD)
            if not record:
                logger.warning("%s is damaged: the next best checkpoint replaces this one", path)
            elif record["metric"] == metric:
                self._best = max(self._best, record["value"])

    def on_validation(
        self, metrics: Mapping[str, float], step: int, *, first_answers: bool = False
    ) -> None:
        """After a validation: keep the checkpoint of this step if it is the best so far.

        Args:
            metrics: of the validation.
            step: the one that it follows.
            first_answers: it had no later turns, and so not the metrics of those.

        Raises:
            ConfigError: the first validation of all turns has no such metric.
        """
        if not self._known and not first_answers:
            require_choice("rltf.keep_best", self._metric, metrics)
            self._known = True
        value = metrics.get(self._metric or "", -math.inf)
        # Before the first step there is no checkpoint; a run killed in this validation has it.
        saved = (self._folder / f"global_step_{step}" / "actor").is_dir()
        if value > self._best and saved:
            self._best = float(value)
            self._keep(step)

    def _keep(self, step: int) -> None:
        """Copy by hard links, where the file system has them: verl then deletes other names."""
        best = self._folder / f"{BEST}{step}"
        shutil.rmtree(best, ignore_errors=True)
        shutil.copytree(self._folder / f"global_step_{step}", best, copy_function=_link)
        record = json.dumps({"metric": self._metric, "value": self._best})
        write_whole(best / RECORD, record.encode())  # last: now it is whole
        for other in set(self._folder.glob(f"{BEST}*")) - {best}:
            shutil.rmtree(other, ignore_errors=True)
        print(
            f"{MARK}best checkpoint so far: step {step}, {self._metric}={self._best:.4g}; to go"
            f" back to it, set trainer.resume_mode=resume_path trainer.resume_from_path={best}",
            flush=True,
        )


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
