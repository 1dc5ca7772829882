"""The newest sessions of a log that may still be written."""

from __future__ import annotations

from pathlib import Path

from rltf_verl.jsonl import parse_lines
from rltf_verl.report.episode_log import log_files
from rltf_verl.report.session import Record


class Tail:
    """Reads a log folder from its end. Half a line is left until it is whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_to: dict[Path, int] = {}

    def last(self, num: int) -> list[Record]:
        """The newest `num` sessions by step, oldest of them first. What is there now is not new any more."""
        found: list[Record] = []
        for path in reversed(log_files(self._folder)):
            data = self._whole_lines(path)
            if len(found) < num:
                found = [*parse_lines(data, path), *found]
        return found[-num:]

    def new(self) -> list[Record]:
        """The sessions that were written since the last call."""
        return [record for path in log_files(self._folder) for record in parse_lines(self._whole_lines(path), path)]

    def _whole_lines(self, path: Path) -> bytes:
        start = self._read_to.get(path, 0)
        try:
            start = start if path.stat().st_size >= start else 0  # another file has this name now
            with path.open("rb") as file:
                file.seek(start)
                data = file.read()
        except FileNotFoundError:  # set aside by a run that was resumed
            return b""
        whole = data[: data.rfind(b"\n") + 1]
        self._read_to[path] = start + len(whole)
        return whole
