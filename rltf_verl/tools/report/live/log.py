"""The episode log of a run that still writes it.

Texts stay on the disk: in memory are one line per episode of the newest steps, and the numbers of
every step.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from rltf_verl.jsonl import numbered
from rltf_verl.runlog.files import EPISODES, log_files, packed, place, read_bytes, read_some
from rltf_verl.runlog.turns import Record
from rltf_verl.tools.report.stats import Stats, stats
from rltf_verl.tools.report.view.index import Line, path_to

MOST_LISTED = 10_000
"""Training episodes in the list, and validation episodes: the newest steps that hold so many."""
STILL_S = 60.0
"""A step whose files have not changed for so long is over, though nothing came after it."""

Place = tuple[int, str]
"""Step and split."""
Signature = tuple[tuple[str, int, int], ...]
"""Name, size and time of each file of a step."""


@dataclass
class Step:
    """The episodes of one step and split, as they were when its files were last read."""

    number: int
    signature: Signature
    lines: list[Line] | None
    """None where the step is too old for the list."""
    stats: Stats
    first_answers_only: bool
    """A validation whose episodes were to end after their first answer."""

    @property
    def version(self) -> str:
        """Changes with the step's files."""
        return f"{crc32(repr(self.signature).encode()):08x}"


class GrowingLog:
    """What the page needs of a log folder, read again where its files changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: dict[Place, Step] = {}
        self.more = False
        """There is more to read."""
        self.changed_at: float | None = None
        """When the newest file was written, seconds since the epoch."""

    def refresh(self, until: float) -> bool:
        """Read what changed, the newest step first; whether something did.

        Args:
            until: of `time.monotonic`: what is not read by then is for the next call.
        """
        found = _signatures(self.folder)
        gone = self.steps.keys() - found.keys()  # played again by a run that was resumed
        steps = {at: step for at, step in self.steps.items() if at not in gone}
        changed, self.more = bool(gone), False
        for at in sorted(found, reverse=True):
            if at in steps and steps[at].signature == found[at]:
                continue
            if changed and time.monotonic() > until:
                self.more = True
                break
            steps[at] = _step(self.folder, at, found[at])
            changed = True
        if changed:
            _forget_old(steps)
            self.steps = dict(sorted(steps.items()))  # one assignment: others read it meanwhile
        newest = max((t for files in found.values() for _, _, t in files), default=None)
        self.changed_at = None if newest is None else newest / 1e9
        return changed

    def listed(self) -> dict[Place, Step]:
        """The steps whose episodes are in the list, in order."""
        return {at: step for at, step in self.steps.items() if step.lines is not None}

    def whole(self, logged: Mapping[int, Any]) -> list[Step]:
        """The steps that are over: the mean of a step that is being played is that of its fast
        episodes.

        Args:
            logged: the steps whose metrics are known.
        """
        latest = max((step for step, _ in self.steps), default=0)
        still = time.time() - STILL_S
        return [
            step
            for (number, _), step in self.steps.items()
            if number < latest
            or number in logged
            or max(t for *_, t in step.signature) / 1e9 < still
        ]

    def records(self, at: Place) -> list[dict[str, Any]]:
        """The episodes of a step, read from the disk, with what they trained."""
        return _records(self.folder, at)


def _signatures(folder: Path) -> dict[Place, Signature]:
    found: dict[Place, list[tuple[str, int, int]]] = {}
    rows: dict[int, list[tuple[str, int, int]]] = {}
    for path in log_files(folder, (*EPISODES, "rows")):
        try:
            status = path.stat()
        except FileNotFoundError:  # packed a moment ago
            continue
        step, kind = place(path)
        files = rows.setdefault(step, []) if kind == "rows" else found.setdefault((step, kind), [])
        files.append((path.name, status.st_size, status.st_mtime_ns))
    return {
        at: tuple(files) + tuple(rows.get(at[0], ()) if at[1] == "train" else ())
        for at, files in found.items()
    }


def _step(folder: Path, at: Place, signature: Signature) -> Step:
    records = _records(folder, at)
    return Step(
        at[0],
        signature,
        [path_to(record) for record in records],
        stats(records, at[1]),
        at[1] == "val" and any(record.get("horizon") for record in records),
    )


def _records(folder: Path, at: Place) -> list[dict[str, Any]]:
    number, split = at
    own = log_files(folder, (*EPISODES, "rows"), number)
    records = _read(path for path in own if place(path)[1] == split)
    if split == "train":
        trained = _read(path for path in own if place(path)[1] == "rows")
        rows = {(record["uid"], record["session_id"]): record["rows"] for record in trained}
        for record in records:
            if (known := rows.get((record["uid"], record["session_id"]))) is not None:
                record["rows"] = known
    return records


def _read(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """The records of one step's files of one kind. Half a line at the end is left until it is
    whole; what was packed and not yet taken away is read once.
    """
    found: list[dict[str, Any]] = []
    known: set[bytes] = set()
    for path in sorted(paths, key=lambda p: (not packed(p), p)):
        data = read_bytes(path)
        lines = numbered(data[: data.rfind(b"\n") + 1])
        found += read_some([(k, line) for k, line in lines if line not in known], path)
        if packed(path):
            known.update(line for _, line in lines)
    return found


def _forget_old(steps: dict[Place, Step]) -> None:
    """Keep the lines of the newest episodes only."""
    for split in EPISODES:
        num = 0
        for at in sorted((at for at in steps if at[1] == split), reverse=True):
            lines = steps[at].lines
            num += steps[at].stats.sessions
            if num > MOST_LISTED and lines is not None and num > steps[at].stats.sessions:
                steps[at].lines = None


def newest(steps: Sequence[Step]) -> list[Stats]:
    """Numbers of the last step of each split."""
    last = {step.stats.split: step.stats for step in steps}
    return [last[split] for split in EPISODES if split in last]


def find(records: Sequence[Record], uid: str, episode: int) -> int | None:
    """Position of an episode among those of its step."""
    return next(
        (
            k
            for k, record in enumerate(records)
            if record["uid"] == uid and record["session_id"] == episode
        ),
        None,
    )
