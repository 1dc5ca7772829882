"""Feedback from a record: no call, no bill, the same words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rltf_verl.feedback import provider_of_block
from rltf_verl.feedback.base import (
    FeedbackProvider,
    FeedbackRequest,
    FeedbackUnavailable,
    ask,
)
from rltf_verl.feedback.record import FILES, call_key
from rltf_verl.jsonl import read_lines
from rltf_verl.types import Feedback, Note

NEEDED = {"key", "settings", "seed", "time", "provider"}


class ReplayProvider(FeedbackProvider):
    """Answers what was answered before, keyed by the conversation up to the attempt.

    The very call of the recorded run (same seed, step, episode and turn) gets the very outcome,
    failures included; the same attempt at another place gets an answer that was given to it, always
    the same one. The whole record is read at start.

    Args:
        folder: `rltf.feedback.record_dir` of the recorded run.
        miss: block of the provider to call when the record has no answer; null makes it
            unavailable.

    Raises:
        ValueError: nothing is recorded there, or answers of differently set providers.
    """

    name = "replay"

    def __init__(self, folder: str, miss: Mapping[str, Any] | None = None) -> None:
        self._folder = folder
        self._miss = None if miss is None else provider_of_block("miss", miss)
        self.judges = () if self._miss is None else self._miss.judges
        records = _records(folder)
        # The latest record of a call: a resumed run continued from it.
        self._exact = {(r["key"], r["seed"]): r for r in records}
        self._answers: dict[str, list[str]] = defaultdict(list)
        for record in self._exact.values():
            if "text" in record:
                self._answers[record["key"]].append(record["seed"])
        # A seed's answer must not depend on the order of the files.
        for seeds in self._answers.values():
            seeds.sort()
        # The record may hold what saw the reference, though the replay itself sees nothing.
        seen = any(r.get("provider_sees_reference") or r.get("sees_reference") for r in records)
        self.sees_reference = seen or (self._miss is not None and self._miss.sees_reference)
        self.constant = all(r.get("constant") for r in records) and (
            self._miss is None or self._miss.constant
        )

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The recorded feedback. Raises FeedbackUnavailable on a miss, and where the record has a
        failure.
        """
        key = call_key(request)
        record = self._exact.get((key, request.seed))
        if record is None and (seeds := self._answers.get(key)):
            record = self._exact[(key, seeds[request.seed % len(seeds)])]
        if record is not None and "text" in record:
            return Feedback(
                record["text"],
                record["provider"],
                sees_reference=bool(record.get("sees_reference")),
                notes=tuple(Note(**note) for note in record.get("notes", ())),
            )
        if record is not None:
            raise FeedbackUnavailable(record["provider"], str(record.get("unavailable")))
        if self._miss is not None:
            return await ask(self._miss, request)
        raise FeedbackUnavailable(
            self.name,
            f"{self._folder} holds no answer to this attempt at problem {request.problem.index};"
            " record one with rltf.feedback.record_dir, or name a provider for such cases:"
            " rltf.feedback.miss={provider: …}",
        )


def _records(folder: str) -> list[dict[str, Any]]:
    """By time; lines of other programs are left alone. Raises ValueError."""
    records = []
    for path in sorted(Path(folder).glob(FILES)):
        records += [record for record in read_lines(path) if record.keys() >= NEEDED]
    if not records:
        raise ValueError(
            f"rltf.feedback.folder={folder}: no feedback is recorded there; it is"
            " rltf.feedback.record_dir of a run"
        )
    settings = {str(record["settings"]) for record in records}
    if len(settings) > 1:
        raise ValueError(
            f"rltf.feedback.folder={folder}: holds answers of differently set providers (`settings`"
            f" of their lines: {', '.join(sorted(settings))}); move those of all but one away"
        )
    return sorted(records, key=lambda record: float(record["time"]))
