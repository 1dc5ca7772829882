"""Answers that people append to files of a folder while we look."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from rltf_verl.jsonl import parse_lines


class Answers:
    """What has been answered so far. Looks at the folder at most once per `poll_s`, however many
    sessions wait.

    Args:
        folder: with `answers*.jsonl`, `{"id": …, "text": …}` a line; a later answer to the same id
            counts.
        poll_s: seconds between two looks.
    """

    def __init__(self, folder: Path, poll_s: float) -> None:
        self._folder, self._poll_s = folder, poll_s
        self._looked = -poll_s
        self._read: dict[Path, int] = {}
        self._texts: dict[str, str] = {}

    def has(self, key: str) -> bool:
        """Whether somebody has answered."""
        if key not in self._texts and time.monotonic() - self._looked >= self._poll_s:
            self._looked = time.monotonic()
            self._look()
        return key in self._texts

    def text(self, key: str) -> str:
        """The answer; empty if somebody declined."""
        return self._texts[key]

    def _look(self) -> None:
        for path in sorted(self._folder.glob("answers*.jsonl")):
            with contextlib.suppress(
                OSError
            ):  # it may be replaced while we look; the next look finds it
                self._look_at(path)

    def _look_at(self, path: Path) -> None:
        """Read what is new, up to the last line end: the rest is still being written."""
        start, size = self._read.get(path, 0), path.stat().st_size
        if size < start:  # an editor saved it anew
            start = 0
        if size == start:
            return
        with path.open("rb") as file:
            file.seek(start)
            data = file.read(size - start)
        whole = data[: data.rfind(b"\n") + 1]
        self._read[path] = start + len(whole)
        for answer in parse_lines(whole, path):
            if "id" in answer:
                self._texts[str(answer["id"])] = str(answer.get("text") or "").strip()
