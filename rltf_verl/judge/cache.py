"""Replies that are paid for, on disk: append-only JSON lines, one file per writer, safe for jobs
that share the folder.

A line is one `write` to a file opened for appending. What a killed writer leaves behind is at worst
one beginning of a line at the end of a file of its own, and a beginning of a JSON object never
parses: it is skipped, never read as data.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rltf_verl.judge.wire import Reply

logger = logging.getLogger(__name__)

LOOK_AGAIN_S = 30.0
"""Seconds between looks for what other jobs have written since."""


def key_of(body: Mapping[str, Any]) -> str:
    """The same for equal bodies. The endpoint's address is no part: a judge may be served elsewhere
    tomorrow.
    """
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]


class ReplyCache:
    """Key -> reply.

    Holds positions in memory and texts on disk. A disk that refuses ends the writing with one
    warning, not the run.

    Args:
        folder: created when missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._own = (
            folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"
        )
        self._found: dict[str, tuple[Path, int, int]] = {}
        self._read_up_to: dict[Path, int] = {}
        self._looked_at = float("-inf")
        self._broken = False

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: str) -> Reply | None:
        """The reply, if anybody has had it; one from another job is found after at most
        `LOOK_AGAIN_S`.
        """
        if key not in self._found and time.monotonic() - self._looked_at > LOOK_AGAIN_S:
            self._look()
        if key not in self._found:
            return None
        path, start, length = self._found[key]
        try:
            with path.open("rb") as file:
                file.seek(start)
                record = _record(file.read(length))
        except OSError:  # somebody cleared the folder
            record = None
        if record is None or record["key"] != key:
            del self._found[key]
            return None
        return replace(_reply(record), cached=True)

    def put(self, key: str, reply: Reply) -> None:
        """Keep a reply."""
        if self._broken:
            return
        line = (
            json.dumps({"key": key, "time": round(time.time(), 3), **asdict(reply)}).encode()
            + b"\n"
        )
        try:
            start = _append(self._own, line)
        except OSError as error:
            self._broken = True
            logger.warning(
                "judge cache: no more replies are kept in %s: %s", self._folder, error.strerror
            )
            return
        self._found[key] = (self._own, start, len(line))
        self._read_up_to[self._own] = start + len(line)

    def _look(self) -> None:
        """Read on, in every file, from where the last look ended."""
        self._looked_at = time.monotonic()
        for path in sorted(self._folder.glob("*.jsonl")):
            try:
                with path.open("rb") as file:
                    file.seek(self._read_up_to.get(path, 0))
                    new = file.read()
            except OSError:
                continue
            self._index(path, new)

    def _index(self, path: Path, new: bytes) -> None:
        start = self._read_up_to.get(path, 0)
        for line in new[: new.rfind(b"\n") + 1].splitlines(keepends=True):
            record = _record(line)
            if record is not None:
                self._found.setdefault(record["key"], (path, start, len(line)))
            start += len(line)
        self._read_up_to[path] = start


def _record(line: bytes) -> dict[str, Any] | None:
    """The line's record, or None if it is not a whole one."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    whole = (
        isinstance(record, dict)
        and isinstance(record.get("key"), str)
        and isinstance(record.get("text"), str)
    )
    return record if whole else None


def _reply(record: Mapping[str, Any]) -> Reply:
    return Reply(
        text=record["text"],
        complete=bool(record.get("complete", True)),
        prompt_tokens=_count(record.get("prompt_tokens")),
        completion_tokens=_count(record.get("completion_tokens")),
        calls=record.get("calls") or (),
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _append(path: Path, line: bytes) -> int:
    """Append one line; returns where it starts. Only this process writes the file, so its size is
    the place.
    """
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        start = os.fstat(fd).st_size
        if os.write(fd, line) != len(line):
            os.ftruncate(fd, start)
            raise OSError(28, "the disk is full")
        return start
    finally:
        os.close(fd)
