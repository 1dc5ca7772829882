"""What was said in each session: one JSON line per session, in one file per step and worker.

A line is one `write` to a file opened for appending, so a killed worker leaves no half line between others. Steps that
a resumed run plays again are moved aside first (`set_aside_after`), so no session stands twice.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rltf_verl.jsonl import append_line, read_lines
from rltf_verl.types import Episode, Feedback, Grade, Problem, Turn

logger = logging.getLogger(__name__)

VERSION = 4
MAX_TASK = 20_000
"""Characters of an environment's fields that a record may hold."""


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
        path = self._folder / f"{step:08d}.{split}.{self._worker}.jsonl"
        try:
            append_line(path, record | _episode_record(episode))
        except OSError as error:
            self._broken = True
            logger.warning("episode log: no more sessions are written to %s: %s", self._folder, error)


def set_aside_after(folder: Path, step: int) -> int:
    """Move the files of what a run resumed at `step` plays again into `superseded/`.

    These are the training sessions after it and the validation sessions from it on (verl validates before it trains).

    Returns:
        How many files were moved.
    """
    stale = [p for p in log_files(folder) if _step(p) > step or (_step(p) == step and ".val." in p.name)]
    for path in stale:
        target = folder / "superseded"
        target.mkdir(exist_ok=True)
        path.rename(target / f"{path.stem}.{path.stat().st_mtime_ns}.jsonl")
    return len(stale)


def log_files(folder: Path) -> list[Path]:
    """The log's own files; what else lies in the folder is not ours."""
    return sorted(p for p in folder.glob("*.jsonl") if re.fullmatch(r"\d{8}\.(train|val)\..+", p.name))


def _step(path: Path) -> int:
    return int(path.name.split(".")[0])


def read_episodes(folder: Path) -> list[dict[str, Any]]:
    """All records of a log folder, by step."""
    return [record for path in log_files(folder) for record in read_lines(path)]


def read_wrong_attempts(folder: Path, num: int) -> list[tuple[Problem, str, str, Grade]]:
    """(problem, question, attempt, grade) of the first wrong attempts of a log; one per session.

    Raises:
        ValueError: there are none.
    """
    found: list[tuple[Problem, str, str, Grade]] = []
    for record in read_episodes(folder):
        wrong = next((turn for turn in record["turns"] if not turn["grade"]["correct"]), None)
        if wrong is not None and record["task"] is not None and len(found) < num:
            problem = Problem(record["env"], record["index"], record["task"], record["reference"])
            found.append((problem, record["question"], wrong["text"], Grade(**wrong["grade"])))
    if not found:
        raise ValueError(f"{folder}: no wrong attempt in it; the run's config names its log as rltf.episode_log_dir")
    return found


def _episode_record(episode: Episode) -> dict[str, Any]:
    return {
        "env": episode.problem.env,
        "index": episode.problem.index,
        "session_id": episode.session_id,
        "reference": episode.problem.reference,
        "task": _task(episode.problem),
        "num_shortened": episode.num_shortened,
        "turns": [_turn_record(turn) for turn in episode.turns],
    }


def _task(problem: Problem) -> dict[str, Any] | None:
    """The environment's fields; None where they would be most of the log (a program's tests, say)."""
    return dict(problem.data) if len(json.dumps(dict(problem.data))) <= MAX_TASK else None


def _turn_record(turn: Turn) -> dict[str, Any]:
    return {
        "text": turn.attempt.text,
        "num_tokens": turn.attempt.info.get("num_tokens", len(turn.attempt.response_ids)),
        "prompt_tokens": turn.attempt.info.get("prompt_tokens", len(turn.attempt.prompt_ids)),
        "ended": turn.attempt.ended,
        "reward": turn.reward,
        "parent": turn.parent,
        "stop": turn.stop,
        "error": turn.error,
        "grade": asdict(turn.grade),
        "feedback": _feedback_record(turn.feedback),
        "withheld": _feedback_record(turn.withheld),
        "weight_version": turn.attempt.info.get("max_global_steps"),
    }


def _feedback_record(feedback: Feedback | None) -> dict[str, Any] | None:
    if feedback is None:
        return None
    # Not asdict: it would copy the sampled tokens too, only to throw them away.
    names = (f.name for f in fields(feedback) if f.name not in ("attempt", "span"))
    return {name: getattr(feedback, name) for name in names}
