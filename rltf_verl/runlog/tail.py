"""The newest episodes of a log that may still be written."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from rltf_verl.jsonl import numbered
from rltf_verl.runlog.files import log_files, packed, place, read_bytes, read_some
from rltf_verl.runlog.turns import Record


class Tail:
    """Reads a log folder from its end. Half a line is left until it is whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, tuple[int, int]] = {}
        """Size and time of each file when it was last read."""
        self._lines: dict[tuple[int, str], set[int]] = defaultdict(set)
        """Hashes of the lines that were read of each step; they come again when it is packed."""

    def last(self, num: int) -> list[Record]:
        """The newest `num` episodes by step, oldest of them first. What is there now is not new any
        more.
        """
        records: list[Record] = []
        for path in reversed(log_files(self._folder)):
            if len(records) < num or not packed(path):
                records = [*self._new_in(path), *records]
            else:
                self._changed(path)
        return records[-num:]

    def new(self) -> list[Record]:
        """The episodes that were written since the last call."""
        return [record for path in log_files(self._folder) for record in self._new_in(path)]

    def _new_in(self, path: Path) -> list[dict[str, Any]]:
        if not self._changed(path):
            return []
        data, seen = read_bytes(path), self._lines[place(path)]
        lines = numbered(data[: data.rfind(b"\n") + 1])
        new = [(number, line) for number, line in lines if hash(line) not in seen]
        seen.update(hash(line) for _, line in new)
        return read_some(new, path)

    def _changed(self, path: Path) -> bool:
        """Whether the file is another one than at the last call; its state is kept."""
        try:
            status = path.stat()
        except FileNotFoundError:  # packed, or set aside by a run that was resumed
            return False
        before, now = self._read.get(path), (status.st_size, status.st_mtime_ns)
        self._read[path] = now
        return now != before
