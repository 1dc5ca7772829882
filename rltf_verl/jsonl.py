"""JSON lines that concurrent and killed processes leave readable."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from rltf_verl.redaction import cleaned, secrets_here
from rltf_verl.texts import counted

logger = logging.getLogger(__name__)
T = TypeVar("T")


def append_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Append records; see `append_text`."""
    append_text(path, "".join(map(line_of, records)))


def append_text(path: Path, text: str) -> None:
    """Append lines in one `write`, so that writers of the same file never mix their lines.

    A file that ends in the middle of a line (its writer was killed) is given a line end first. The
    lock is for that look, and for a file that is taken away meanwhile (`runlog.files.pack`):
    without it, a line that is still being written would pass for half a line.

    Raises:
        OSError: the disk refuses, or takes only a part; then the file is as it was.
    """
    lines = text.encode("utf-8", "replace")
    fd = _locked_end(path)
    try:
        if _ends_in_half_a_line(fd):
            lines = b"\n" + lines
        written = os.write(fd, lines)
        if written != len(lines):
            os.ftruncate(fd, os.fstat(fd).st_size - written)  # no half line for readers
            raise OSError(
                f"{path}: only {written} of {len(lines)} bytes could be written; is the disk full?"
            )
    finally:
        os.close(fd)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that, also after a crash of the machine, is this one or the one before.

    Raises:
        OSError: the disk refuses.
    """
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


class PatientWriter:
    """Appends lines. Lines that the disk refuses wait in memory, and every later call tries them
    again.

    Args:
        name: for the log.
        most: calls whose records wait at once; the oldest are lost first.
    """

    def __init__(self, name: str, most: int = 2000) -> None:
        self._name, self._most = name, most
        self._thread = ThreadPoolExecutor(1, name)
        self._waiting = deque[tuple[Path, list[str]]]()
        self._refused, self._lost = False, 0

    async def run(self, use: Callable[[], T]) -> T:
        """Call what appends or closes, from an event loop: its caller waits for a slow disk, others
        do not. One thread keeps the order of calls, and a caller that is cancelled loses no line.
        """
        return await asyncio.shield(asyncio.wrap_future(self._thread.submit(use)))

    def append(self, path: Path, records: Iterable[Mapping[str, Any]]) -> None:
        """Append records, after those that wait."""
        if len(self._waiting) == self._most:
            self._lost += len(self._waiting.popleft()[1])
        self._waiting.append((path, list(map(line_of, records))))
        self._write_waiting()

    def close(self) -> int:
        """Try a last time; the number of records that were never written."""
        self._write_waiting()
        return self._lost + sum(len(lines) for _, lines in self._waiting)

    def _write_waiting(self) -> None:
        try:
            while self._waiting:
                path, lines = self._waiting[0]
                append_text(path, "".join(lines))
                self._waiting.popleft()
        except OSError as error:
            if not self._refused:
                logger.warning(
                    "%s: %s; records wait in memory until the disk takes them", self._name, error
                )
            self._refused = True
            return
        if self._refused:
            logger.warning("%s: written again; records lost so far: %d", self._name, self._lost)
        self._refused = False


def line_of(record: Mapping[str, Any], *, finite: bool = False) -> str:
    """One line, in which no secret of this process leaves it; with `finite`, NaN and infinity as
    texts, so that every reader of JSON takes it.

    A log must not fail for what a user's grader put into it: what JSON has no form for is written
    as Python shows it.
    """
    secrets = secrets_here()
    try:
        line = json.dumps(record, ensure_ascii=False, allow_nan=not finite, default=repr)
    except Exception:  # user code
        line = json.dumps(plain(record), ensure_ascii=False, default=_kind)
    return (
        json.dumps(cleaned(json.loads(line), secrets), ensure_ascii=False)
        if secrets.found_in(line)
        else line
    ) + "\n"


def _kind(value: object) -> str:
    """What is shown of a value that has no text."""
    return f"<{type(value).__name__}>"


def plain(value: Any, depth: int = 10) -> Any:
    """With texts as keys, numbers that are finite, and no deeper than that."""
    if isinstance(value, Mapping | list | tuple) and not depth:
        return _kind(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one, depth - 1) for key, one in value.items()}
    return [plain(one, depth - 1) for one in value] if isinstance(value, list | tuple) else value


def _locked_end(path: Path) -> int:
    """A descriptor of the file that has this name once it is locked."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(fd, fcntl.LOCK_EX)
        # No name any more: the file was packed between its opening and the lock.
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)


def _ends_in_half_a_line(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"


Line = tuple[int, bytes]
"""A line of a file and its number, from 1."""
Trouble = Callable[[Mapping[str, Any]], str | None]
"""What is wrong with a record, in a few words; None if it can be read."""
MOST_NAMED = 3
"""Lines that one warning names."""


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file. What is no JSON object (half a line of a killed writer) is skipped
    with a warning.
    """
    return parse(numbered(path.read_bytes()), path)


def numbered(data: bytes) -> list[Line]:
    """The lines that are not blank, numbered from 1."""
    # Not splitlines(): it also splits at U+2028 and other line ends that may stand inside a text.
    return [(k, line) for k, line in enumerate(data.split(b"\n"), 1) if line.strip()]


def parse(
    lines: Sequence[Line], path: Path, trouble: Trouble | None = None
) -> list[dict[str, Any]]:
    """The records of some lines of a file. What cannot be read is skipped with a warning.

    Args:
        lines: of the file.
        path: the file, for the warning.
        trouble: what may be wrong with a record.
    """
    good: list[dict[str, Any]] = []
    bad: list[str] = []
    for number, line in lines:
        record = parsed(line)
        cause = "no JSON object" if record is None else trouble and trouble(record)
        if record is not None and not cause:
            good.append(record)
        else:
            bad.append(f"line {number}: {cause}")
    if bad:
        more = f"; and {len(bad) - MOST_NAMED} more" if len(bad) > MOST_NAMED else ""
        logger.warning(
            "%s: skipped %s of %d (%s%s)",
            path,
            counted(len(bad), "unreadable line"),
            len(lines),
            "; ".join(bad[:MOST_NAMED]),
            more,
        )
    return good


def parsed(line: bytes) -> dict[str, Any] | None:
    """The object in a line; None if there is none."""
    try:
        record = json.loads(line)
        if b"\\ud" in line.lower():  # half a surrogate pair could not be encoded again
            record = json.loads(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
