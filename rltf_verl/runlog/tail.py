"""The newest episodes of a log that may still be written."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from rltf_verl.jsonl import Line, numbered
from rltf_verl.runlog.files import log_files, packed, place, read_bytes, read_some
from rltf_verl.runlog.turns import Record


class Tail:
    """Reads a log folder from its end. Half a line is left until it is whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_to: dict[Path, int] = {}
        self._lines: dict[tuple[int, str], set[int]] = defaultdict(set)
        """Hashes of the lines that were read from a step's files; they come again when the step is
        packed.
        """

    def last(self, num: int) -> list[Record]:
        """The newest `num` episodes by step, oldest of them first. What is there now is not new any
        more.
        """
        records: list[Record] = []
        for path in reversed(log_files(self._folder)):
            if len(records) < num or not packed(path):
                records = [*read_some(self._new_lines(path), path), *records]
            else:
                self._read_to[path] = path.stat().st_size
        return records[-num:]

    def new(self) -> list[Record]:
        """The episodes that were written since the last call."""
        return [
            record
            for path in log_files(self._folder)
            for record in read_some(self._new_lines(path), path)
        ]

    def _new_lines(self, path: Path) -> list[Line]:
        try:
            size = path.stat().st_size
        except FileNotFoundError:  # packed, or set aside by a run that was resumed
            return []
        start = self._read_to.get(path, 0)
        # Next to a packed file, a file of the same name may be another one: its lines show what is
        # new.
        again = _packed_beside(path).exists()
        if size == start and (packed(path) or not again):
            return []
        start = 0 if again or size < start else start
        data = read_bytes(path)
        whole = data[start : data.rfind(b"\n") + 1]
        self._read_to[path] = size if packed(path) else start + len(whole)
        seen = self._lines[place(path)]
        lines = numbered(whole, data.count(b"\n", 0, start) + 1)
        new = [(k, line) for k, line in lines if not (again and hash(line) in seen)]
        seen.update(hash(line) for _, line in new)
        return new


def _packed_beside(path: Path) -> Path:
    step, kind = place(path)
    return path.with_name(f"{step:08d}.{kind}.jsonl.gz")
