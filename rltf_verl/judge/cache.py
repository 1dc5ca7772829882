"""Replies that are paid for, on disk: append-only JSON lines, one file per writer, safe for jobs
that share the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rltf_verl.jsonl import PatientWriter, numbered, parse
from rltf_verl.judge.wire import Reply

LOOK_AGAIN_S = 30.0
"""Seconds between looks for what other jobs have written since."""


def key_of(body: Mapping[str, Any]) -> str:
    """The same for equal bodies. The endpoint's address is no part: a judge may be served elsewhere
    tomorrow.
    """
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]


class ReplyCache:
    """Key -> reply.

    Args:
        folder: created when missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._own = (
            folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"
        )
        self._kept: dict[str, Reply] = {}
        self._read_up_to: dict[Path, int] = {}
        self._writer = PatientWriter(f"judge cache in {folder}")
        # Before the first call: a later look holds up its own caller alone, and a call that comes
        # meanwhile is paid for.
        self._look()
        self._looked_at = time.monotonic()

    async def get(self, key: str) -> Reply | None:
        """The reply, if anybody has had it. Every `LOOK_AGAIN_S` a call that misses looks for what
        other jobs have written.
        """
        if key not in self._kept and time.monotonic() - self._looked_at > LOOK_AGAIN_S:
            self._looked_at = time.monotonic()
            await self._writer.run(self._look)
        return self._kept.get(key)

    async def put(self, key: str, reply: Reply) -> None:
        """Keep a reply. The next job calls again for an empty one."""
        self._kept[key] = replace(reply, cached=True)
        if reply.text.strip() or reply.calls:
            record = {"key": key, "time": round(time.time(), 3), **asdict(reply)}
            await self._writer.run(lambda: self._writer.append(self._own, [record]))

    async def close(self) -> None:
        """Write what the disk has refused."""
        await self._writer.run(self._writer.close)

    def _look(self) -> None:
        """Read on, in every file of another job, from where the last look ended."""
        for path in sorted({*self._folder.glob("*.jsonl")} - {self._own}):
            with suppress(OSError), path.open("rb") as file:
                start = file.seek(self._read_up_to.get(path, 0))
                new = file.read()
                # A line that is still being written is left for the next look.
                whole = new[: new.rfind(b"\n") + 1]
                self._read_up_to[path] = start + len(whole)
                for record in parse(numbered(whole), path, _trouble):
                    self._kept.setdefault(record["key"], _reply(record))


def _trouble(record: Mapping[str, Any]) -> str | None:
    whole = isinstance(record.get("key"), str) and isinstance(record.get("text"), str)
    return None if whole else "no reply"


def _reply(record: Mapping[str, Any]) -> Reply:
    return Reply(
        record["text"],
        bool(record.get("complete", True)),
        record.get("prompt_tokens", 0),
        record.get("completion_tokens", 0),
        True,
        record.get("calls") or (),
    )
