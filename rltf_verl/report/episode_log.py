"""What was said in each session: one JSON line per session, in one file per step and worker.

A line is one `write` to a file opened for appending, so a killed worker leaves no half line between others. Steps that
a resumed run plays again are moved aside first (`set_aside_after`), so no session stands twice.
"""

from __future__ import annotations

import json
import logging
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rltf_verl.types import Episode, Turn

logger = logging.getLogger(__name__)

VERSION = 1


class EpisodeLog:
    """The writer of one worker process.

    Args:
        folder: created when missing.
        worker: distinguishes the files of concurrent workers.
    """

    def __init__(self, folder: Path, worker: str) -> None:
        self._folder = folder
        self._worker = worker
        self._broken = False
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, episode: Episode, *, question: str, step: int, validate: bool, uid: str) -> None:
        """Write one session. A disk that refuses ends the log with one warning, not the run."""
        if self._broken:
            return
        split = "val" if validate else "train"
        record = {"version": VERSION, "step": step, "split": split, "uid": uid, "question": question}
        line = json.dumps(record | _episode_record(episode), ensure_ascii=False) + "\n"
        path = self._folder / f"{step:08d}.{split}.{self._worker}.jsonl"
        try:
            _write(path, line.encode("utf-8", "replace"))
        except OSError as error:
            self._broken = True
            logger.warning("episode log: no more sessions are written to %s: %s", self._folder, error)


def _write(path: Path, data: bytes) -> None:
    """One `write`, so that what a killed process leaves is whole lines."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def set_aside_after(folder: Path, step: int) -> int:
    """Move the files of what a run resumed at `step` plays again into `superseded/`.

    These are the training sessions after it and the validation sessions from it on (verl validates before it trains).

    Returns:
        How many files were moved.
    """
    stale = [p for p in _files(folder) if _step(p) > step or (_step(p) == step and ".val." in p.name)]
    for path in stale:
        target = folder / "superseded"
        target.mkdir(exist_ok=True)
        path.rename(target / f"{path.stem}.{path.stat().st_mtime_ns}.jsonl")
    return len(stale)


def _files(folder: Path) -> list[Path]:
    """The log's own files; what else lies in the folder is not ours."""
    return sorted(p for p in folder.glob("*.jsonl") if re.fullmatch(r"\d{8}\.(train|val)\..+", p.name))


def _step(path: Path) -> int:
    return int(path.name.split(".")[0])


def read_episodes(folder: Path) -> list[dict[str, Any]]:
    """All records of a log folder, by step."""
    # Not splitlines(): it also splits at U+2028 and other line ends that may stand inside a text.
    lines = [line for path in _files(folder) for line in path.read_bytes().split(b"\n")]
    return [json.loads(line) for line in lines if line]


def _episode_record(episode: Episode) -> dict[str, Any]:
    return {
        "env": episode.problem.env,
        "index": episode.problem.index,
        "session_id": episode.session_id,
        "reference": episode.problem.reference,
        "stop": episode.stop,
        "error": episode.error,
        "num_shortened": episode.num_shortened,
        "turns": [_turn_record(turn) for turn in episode.turns],
    }


def _turn_record(turn: Turn) -> dict[str, Any]:
    feedback = None
    if turn.feedback is not None:
        feedback = {k: v for k, v in asdict(turn.feedback).items() if k != "attempt"}
    return {
        "text": turn.attempt.text,
        "num_tokens": len(turn.attempt.response_ids),
        "ended": turn.attempt.ended,
        "reward": turn.reward,
        "grade": asdict(turn.grade),
        "feedback": feedback,
        "weight_version": turn.attempt.info.get("max_global_steps"),
    }
