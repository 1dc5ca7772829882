"""The episode log in a folder that somebody names: the log, or the folder of its run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rltf_verl.runlog.files import log_files

DEPTH = 3
"""Folders below a run's folder that are looked into."""

ELSEWHERE = ("global_step_", "superseded", "wandb", ".")
"""Beginnings of the names of folders that are not looked into: checkpoints, and what other programs
keep there.
"""


def folders_of(top: Path) -> Iterator[Path]:
    """The folder and those below it that may hold metrics or episodes: no checkpoints, nothing
    superseded.
    """
    for name, below, _ in os.walk(top):
        folder = Path(name)
        yield folder
        deep = len(folder.relative_to(top).parts) >= DEPTH
        below[:] = [] if deep else sorted(b for b in below if not b.startswith(ELSEWHERE))


def log_folder(path: Path) -> Path:
    """The episode log that `path` is or holds; one that has no episodes yet, if there is none else.

    Raises:
        ValueError: no such folder, or one that holds several logs.
    """
    if not path.is_dir():
        what = "a file, not a folder" if path.exists() else "no such folder"
        raise ValueError(
            f"{path}: {what}; name a run's trainer.default_local_dir, or its rltf.episode_log.dir"
        )
    if log_files(path):
        return path
    logs = [folder for folder in folders_of(path) if log_files(folder)]
    if len(logs) > 1:
        raise ValueError(
            f"{path}: holds {len(logs)} episode logs, e.g. {logs[0]} and {logs[1]}; name one"
        )
    usual = path / "episodes"
    return logs[0] if logs else usual if usual.is_dir() else path
