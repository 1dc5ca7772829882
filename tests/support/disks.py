"""A disk that takes no line until the event loop has gone on."""

import threading
from pathlib import Path
from typing import NamedTuple

import pytest

from rltf_verl import jsonl


class SlowDisk(NamedTuple):
    """Whether a writer has come, and whether it may write."""

    asked: threading.Event
    released: threading.Event


def slow_disk(monkeypatch: pytest.MonkeyPatch) -> SlowDisk:
    """A writer that holds up whoever releases the disk fails after a minute."""
    disk, append = SlowDisk(threading.Event(), threading.Event()), jsonl.append_text

    def slow(path: Path, text: str) -> None:
        disk.asked.set()
        assert disk.released.wait(60), "the event loop stood still"
        append(path, text)

    monkeypatch.setattr(jsonl, "append_text", slow)
    return disk
