"""JSON lines that concurrent and killed processes leave readable."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    """Append one record; see `append_lines`."""
    append_lines(path, [record])


def append_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Append records in one `write`, so that writers of the same file never mix their lines.

    A file that ends in the middle of a line (its writer was killed) is given a line end first. The lock is for that
    look, and for a file that is taken away meanwhile (`report.log_files.pack`): without it, a line that somebody is
    still writing would pass for half a line.

    Raises:
        OSError: the disk refuses, or takes only a part.
    """
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    lines = text.encode("utf-8", "replace")
    fd = _locked_end(path)
    try:
        if _ends_in_half_a_line(fd):
            lines = b"\n" + lines
        written = os.write(fd, lines)
        if written != len(lines):
            raise OSError(f"{path}: only {written} of {len(lines)} bytes could be written; is the disk full?")
    finally:
        os.close(fd)


def _locked_end(path: Path) -> int:
    """A descriptor of the file that has this name once it is locked."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)


def _ends_in_half_a_line(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file. What is no JSON object (half a line of a killed writer) is skipped with a warning."""
    return parse_lines(path.read_bytes(), path)


def parse_lines(data: bytes, path: Path) -> list[dict[str, Any]]:
    """The records in `data`, a stretch of whole lines of the file at `path`."""
    # Not splitlines(): it also splits at U+2028 and other line ends that may stand inside a text.
    records = [_parsed(line) for line in data.split(b"\n") if line.strip()]
    good = [record for record in records if record is not None]
    if len(good) < len(records):
        logger.warning("%s: skipped %d unreadable lines of %d", path, len(records) - len(good), len(records))
    return good


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
