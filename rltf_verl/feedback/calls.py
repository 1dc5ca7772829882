"""What a feedback call was an answer to, as a key that is the same in every process and run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rltf_verl.feedback.base import FeedbackRequest


def call_key(request: FeedbackRequest) -> str:
    """Hash of everything that was said so far: the problem, the question, every attempt and the
    feedback on it.

    Not of the place in the data or of the seed: the same attempt at the same problem may be
    answered from a record, whichever run and episode it comes from.
    """
    problem = request.problem
    said = [
        (turn.attempt.text, turn.feedback.text if turn.feedback else None) for turn in request.turns
    ]
    return digest([problem.env, problem.data, problem.reference, list(request.messages), said])


def settings_key(name: str, options: Mapping[str, Any]) -> str:
    """Short hash of a provider's settings: answers of differently set providers are not mixed."""
    return digest([name, options])[:12]


def digest(value: object) -> str:
    """Hash of a value's JSON; key order does not count, and what JSON does not know is taken by its
    text.
    """
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
