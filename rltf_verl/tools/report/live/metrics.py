"""The metrics of a run that still writes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rltf_verl.jsonl import parse_lines
from rltf_verl.tools.report.history import History, Metrics, merged, processes, records_of
from rltf_verl.tools.report.view.training import is_used


@dataclass
class _File:
    inode: int
    """A resumed run moves its file aside and begins another one of the same name."""
    read: int = 0
    """Bytes; half a line is left until it is whole."""
    records: list[tuple[int, Metrics]] = field(default_factory=list)


class GrowingMetrics:
    """The metrics that the page draws, of all processes of a run. Reads each line once."""

    def __init__(self) -> None:
        self._files: dict[Path, _File] = {}
        self.history: History = {}

    def refresh(self, paths: Iterable[Path]) -> bool:
        """Read what is new; whether something was. `paths`: the earliest process first."""
        paths = [path for path in paths if path.suffix == ".jsonl"]
        gone = self._files.keys() - set(paths)
        for path in gone:
            del self._files[path]
        if not any([*map(self._read, paths), gone]):
            return False
        records = [self._files[path].records for path in paths if path in self._files]
        self.history = merged([process for own in records for process in processes(own)])
        return True

    def _read(self, path: Path) -> bool:
        try:
            with path.open("rb") as file:
                inode, size = _identity(path)
                own = self._files.get(path)
                if own is None or own.inode != inode or size < own.read:
                    own = self._files[path] = _File(inode)
                file.seek(own.read)
                data = file.read()
        except FileNotFoundError:
            return self._files.pop(path, None) is not None
        whole = data[: data.rfind(b"\n") + 1]
        own.read += len(whole)
        own.records += [
            (step, {name: value for name, value in metrics.items() if is_used(name)})
            for step, metrics in records_of(parse_lines(whole, path))
        ]
        return bool(whole)


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_size
