"""Every feedback call as a JSON line, to be replayed."""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from rltf_verl.feedback.base import (
    FeedbackProvider,
    FeedbackRequest,
    FeedbackUnavailable,
    WrappedProvider,
    ask,
)
from rltf_verl.jsonl import PatientWriter
from rltf_verl.types import Feedback

VERSION = 1
FILES = "feedback.*.jsonl"
NOT_IN_ANSWERS = ("limits", "price", "cache_dir")
"""Settings of a judge."""


class RecordedProvider(WrappedProvider):
    """Another provider, with every answer and every failure written down.

    One file per process and start. A critique that the policy writes itself is not recorded: it is
    not an answer that costs money, and its tokens belong to the weights that sampled them. What a
    disk refuses waits in memory, with one warning.

    Args:
        inner: the provider.
        folder: created when there is something to write.
        options: the provider's settings, which the lines are marked with.
    """

    def __init__(self, inner: FeedbackProvider, folder: Path, options: Mapping[str, Any]) -> None:
        super().__init__(inner)
        self._settings = settings_key(inner.name, options)
        self._folder = folder
        self._writer = PatientWriter(f"feedback record in {folder}")

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The inner provider's feedback. Raises FeedbackUnavailable."""
        try:
            feedback = await ask(self.inner, request)
        except FeedbackUnavailable as error:
            await self._write(request, provider=error.provider, unavailable=error.cause)
            raise
        # What the policy wrote belongs to the weights that wrote it: a replay has others.
        if feedback.attempt is None:
            await self._write(
                request,
                provider=feedback.provider,
                text=feedback.text,
                sees_reference=feedback.sees_reference,
                **({"notes": list(map(asdict, feedback.notes))} if feedback.notes else {}),
            )
        return feedback

    async def _write(self, request: FeedbackRequest, **outcome: Any) -> None:
        record = {
            "version": VERSION,
            "key": call_key(request),
            "settings": self._settings,
            "seed": request.seed,
            "time": time.time(),
            "env": request.problem.env,
            "index": request.problem.index,
            "session_id": request.session_id,
            "turn": len(request.turns),
            "attempt": request.turns[-1].attempt.text,
            "constant": self.constant,
            "provider_sees_reference": self.sees_reference,
            **outcome,
        }
        await self._writer.run(lambda: self._writer.append(self._path, [record]))

    @cached_property
    def _path(self) -> Path:
        """Of this process: chosen when there is something to write."""
        with suppress(OSError):  # the writer says what the disk says
            self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"feedback.{os.getpid()}.{uuid.uuid4().hex[:8]}.jsonl"


def call_key(request: FeedbackRequest) -> str:
    """Hash of the conversation so far: the problem, the question, every attempt and the
    feedback on it.

    Not of the place in the data or of the seed: the same attempt at the same problem may be
    answered from a record, whichever run and episode it comes from.
    """
    problem = request.problem
    turns = [
        (turn.attempt.text, turn.feedback.text if turn.feedback else None) for turn in request.turns
    ]
    return digest([problem.env, problem.data, problem.reference, list(request.messages), turns])


def settings_key(name: str, options: Mapping[str, Any]) -> str:
    """Short hash of a provider's settings: answers of differently set providers are not mixed. How
    fast a judge may be asked changes none; a resumed run may have other limits.
    """
    return digest([name, _in_answers(name, options)])[:12]


def _in_answers(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Without what changes no answer, also of the providers inside."""
    left_out = NOT_IN_ANSWERS if name == "judge" else ()
    return {
        key: _in_answers(str(value.get("provider")), value) if isinstance(value, Mapping) else value
        for key, value in options.items()
        if key not in left_out
    }


def digest(value: object) -> str:
    """Hash of a value's JSON; key order does not count, and what JSON does not know is taken by its
    text.
    """
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
