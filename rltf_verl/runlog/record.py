"""An episode as JSON: what the episode log writes, and what every count of episodes reads
(`turns`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from rltf_verl.jsonl import line_of
from rltf_verl.types import Attempt, Episode, Feedback, TeacherPrompt, Turn

VERSION = 5
MAX_OWN = 20_000
"""Characters of a problem's fields, and of a grade's details, that a record may hold."""


def episode_record(episode: Episode, *, ids: bool = False) -> dict[str, Any]:
    """The fields of one episode; `ids`: the attempts' tokens too."""
    return {
        "env": episode.problem.env,
        "index": episode.problem.index,
        "session_id": episode.session_id,
        "reference": episode.problem.reference,
        "task": _own(episode.problem.data),
        "num_shortened": episode.num_shortened,
        "turns": [
            turn_record(turn) | (_ids(turn.attempt) if ids else {}) for turn in episode.turns
        ],
        **({} if episode.horizon is None else {"horizon": episode.horizon}),
    }


def turn_record(turn: Turn) -> dict[str, Any]:
    """The fields of one turn."""
    grade = _shallow(turn.grade, *([] if turn.grade.numbers else ["numbers"]))
    grade |= {"details": _own(turn.grade.details) or {}}
    record = _attempt_record(turn.attempt) | {
        "prompt": turn.prompt,
        "reward": turn.reward,
        "stop": turn.stop,
        "error": turn.error,
        "grade": grade,
        "feedback": _feedback_record(turn.feedback),
        "withheld": _feedback_record(turn.withheld),
    }
    if turn.teacher is not None:
        record["teacher"] = _teacher_record(turn.teacher)
    return record | trajectory_record(turn.attempt)


def _attempt_record(attempt: Attempt) -> dict[str, Any]:
    info = attempt.info
    return {
        "text": attempt.text,
        "num_tokens": info.get("num_tokens", len(attempt.response_ids)),
        "prompt_tokens": info.get("prompt_tokens", len(attempt.prompt_ids)),
        "ended": attempt.ended,
        "weight_version": info.get("max_global_steps"),
    }


def _own(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The environment's fields; None where they would be most of the log (a program's tests,
    say).
    """
    line = line_of(fields, finite=True)
    # by way of the text, which has no NaN and no object that JSON cannot hold
    return json.loads(line) if len(line) <= MAX_OWN else None


def trajectory_record(attempt: Attempt) -> dict[str, Any]:
    """The steps of an attempt and why it ended; empty where it is one answer."""
    if attempt.trajectory is None:
        return {}
    steps = [asdict(step) for step in attempt.trajectory.steps]
    drifts = attempt.info.get("num_drifts", 0)
    return {"end": attempt.trajectory.end, "num_drifts": drifts, "steps": steps}


def _ids(attempt: Attempt) -> dict[str, Any]:
    return {
        "prompt_ids": attempt.prompt_ids,
        "response_ids": attempt.response_ids,
        "log_probs": attempt.log_probs,
    }


def _teacher_record(teacher: TeacherPrompt) -> dict[str, Any]:
    return {
        "prompt": teacher.text,
        "prompt_tokens": len(teacher.ids),
        **({"against": len(teacher.against)} if teacher.against else {}),
    }


def _feedback_record(feedback: Feedback | None) -> dict[str, Any] | None:
    if feedback is None:
        return None
    notes = {"notes": [asdict(note) for note in feedback.notes]} if feedback.notes else {}
    return _shallow(feedback, "attempt", "span", "notes") | notes


def _shallow(record: Any, *without: str) -> dict[str, Any]:
    """The fields of a dataclass. Not asdict: it would copy sampled tokens, only to throw them away,
    and cannot copy all that a grader may put into `details`.
    """
    names = (field.name for field in fields(record))
    return {name: getattr(record, name) for name in names if name not in without}
