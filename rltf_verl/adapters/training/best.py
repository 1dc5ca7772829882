"""The checkpoint with the best validation (`rltf.keep_best`), which verl's limit on the number of
checkpoints does not delete.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from rltf_verl.adapters.console import MARK
from rltf_verl.registry import require_choice

BEST = "best_global_step_"
RECORD = "rltf_best.json"
"""In the folder: metric and value."""


class BestCheckpoint:
    """Keeps one checkpoint in `best_global_step_N`, next to verl's.

    Args:
        folder: `trainer.default_local_dir`.
        metric: of a validation; larger is better. None keeps nothing.
        resumed_at: steps that an earlier process has trained. Its best counts, unless there is no
            such process.
    """

    def __init__(self, folder: Path, metric: str | None, resumed_at: int) -> None:
        self._folder, self._metric, self._resumed_at = folder, metric, resumed_at
        self._best, self._known = -math.inf, metric is None
        for path in folder.glob(f"{BEST}*/{RECORD}") if resumed_at else ():
            record = json.loads(path.read_text("utf-8"))
            if record["metric"] == metric:
                self._best = max(self._best, record["value"])

    def on_validation(self, metrics: Mapping[str, float], step: int) -> None:
        """After a validation: keep the checkpoint of this step if it is the best so far.

        Raises:
            ConfigError: the first validation has no such metric.
        """
        if not self._known:
            require_choice("rltf.keep_best", self._metric, metrics)
            self._known = True
        value = metrics.get(self._metric or "", -math.inf)  # later ones may have no second answers
        # A validation before the first step is of the checkpoint that the run resumed from.
        if value > self._best and step > self._resumed_at:
            self._best = float(value)
            self._keep(step)

    def _keep(self, step: int) -> None:
        """As hard links, where the file system has them: verl's deletion then takes other names."""
        best = self._folder / f"{BEST}{step}"
        shutil.rmtree(best, ignore_errors=True)
        shutil.copytree(self._folder / f"global_step_{step}", best, copy_function=_link)
        record = json.dumps({"metric": self._metric, "value": self._best})
        (best / RECORD).write_text(record, "utf-8")  # last: now it is whole
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
