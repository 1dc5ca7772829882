"""The runs of a page: their episode logs and metrics, read again where files changed."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zlib import crc32

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.runlog.files import EPISODES, Kind, log_files, log_folder, place
from rltf_verl.runlog.turns import Record
from rltf_verl.tools.report.history import History, read_history
from rltf_verl.tools.report.row_words import TRAINS
from rltf_verl.tools.report.run_files import metrics_near, run_files, run_name
from rltf_verl.tools.report.stats import Stats, stats
from rltf_verl.tools.report.view.charts import charts, warnings
from rltf_verl.tools.report.view.episodes import FLAGS, TRAINED, Line, line_of

MOST_LISTED = 10_000
"""Training episodes in the list of a run that is followed, and validation episodes: the newest
steps that hold so many."""
STILL_S = 60.0
"""A step whose files have not changed for so long is over, though no later one has begun."""

StepOfSplit = tuple[int, Kind]
Signature = tuple[tuple[str, int, int], ...]
"""Name, size and time of each file."""


@dataclass
class Step:
    """The episodes of one step and split, as they were when its files were last read."""

    signature: Signature
    stats: Stats
    first_answers_only: bool
    """A validation whose episodes end after their first answer."""
    lines: list[Line]
    """Empty where the step is too old for the list."""
    records: list[Record]
    """Empty in a run that is followed: its texts stay on the disk."""


class Run:
    """A run's folder, or its episode log. One that is followed need not exist yet.

    `refresh` runs in one thread, the other methods in any.
    """

    def __init__(self, path: Path, name: str, *, followed: bool = False) -> None:
        self.name, self.followed = name, followed
        self.steps: dict[StepOfSplit, Step] = {}
        self.history: History = {}
        self.version = 0
        """Counts the changes."""
        self.trouble = ""
        """Why there are no episodes."""
        self._path = self._log = path
        self._metrics: tuple[Path, ...] = ()
        self._metrics_signature: Signature = ()
        self._num_over = 0

    def refresh(self, seconds: float = math.inf) -> bool:
        """Read what changed on the disk, the newest step first; whether everything is read.

        Args:
            seconds: after which the rest is left to the next call.
        """
        until = time.monotonic() + seconds
        try:
            if not self.steps:
                self._log = log_folder(self._path)
            signatures = _signatures(self._log)
            self._read_metrics()
            all_read = self._read_steps(signatures, until)
        except (OSError, ValueError) as error:  # the next call tries again
            self.trouble = str(error)
            return True
        self.trouble = "" if self.steps else f"{self._path}: no episodes in it"
        num_over = len(self._over())
        self.version += num_over != self._num_over
        self._num_over = num_over
        return all_read

    def index(self) -> dict[str, Any]:
        """The columns of the list, the charts, and where a conversation is found."""
        listed = self.listed()
        lines = [line for step in listed.values() for line in step.lines]
        envs = sorted({line.env for line in lines})
        columns = {name: [line[k] for line in lines] for k, name in enumerate(Line._fields)}
        over = self._over()
        cut = {step.stats.first_step for step in over if step.first_answers_only}
        ends = accumulate(len(step.lines) for step in listed.values())
        return columns | {
            "name": self.name,
            "envs": envs,
            "env": [envs.index(line.env) for line in lines],
            "charts": charts([step.stats for step in over], cut, self.history),
            "warnings": warnings(self.history),
            "splits": [_totals(name, over) for name in sorted({step.stats.split for step in over})],
            "starts": [0, *ends][:-1],
            # the address of a block changes with the step's files
            "blocks": [
                f"{block_name(at)}?{crc32(repr(step.signature).encode()):08x}"
                for at, step in listed.items()
            ],
            "older": len(self.steps) - len(listed),
        }

    def listed(self) -> dict[StepOfSplit, Step]:
        """The steps whose episodes are in the list, in order."""
        return {at: step for at, step in self.steps.items() if step.lines}

    def records(self, at: StepOfSplit) -> list[Record]:
        """The episodes of a step, with what they trained."""
        return self.steps[at].records or self._read(at)

    def state(self) -> dict[str, Any]:
        """Where a run that is followed stands."""
        times = [changed for step in self.steps.values() for *_, changed in step.signature]
        return {
            "step": max((step for step, _ in self.steps), default=None),
            "changed": max(times) / 1e9 if times else None,
            "trouble": self.trouble,
        }

    def _read_steps(self, signatures: Mapping[StepOfSplit, Signature], until: float) -> bool:
        """Whether all of them are read."""
        steps = {at: step for at, step in self.steps.items() if at in signatures}
        stale = [
            at
            for at in sorted(signatures, reverse=True)
            if at not in steps or steps[at].signature != signatures[at]
        ]
        num_read = 0
        while num_read < len(stale) and (num_read == 0 or time.monotonic() < until):
            at = stale[num_read]
            steps[at] = self._read_step(at, signatures[at])
            num_read += 1
        if stale or len(steps) != len(self.steps):
            if self.followed:
                _forget_old(steps)
            self.steps = dict(sorted(steps.items()))  # one assignment: other threads read it
            self.version += 1
        return num_read == len(stale)

    def _read_step(self, at: StepOfSplit, signature: Signature) -> Step:
        records = self._read(at)
        return Step(
            signature,
            stats(records, at[1]),
            at[1] == "val" and any(record.get("horizon") for record in records),
            [line_of(record) for record in records],
            [] if self.followed else records,
        )

    def _read(self, at: StepOfSplit) -> list[Record]:
        step, split = at
        return [*read_episodes(self._log, step, (split,), growing=True)]

    def _read_metrics(self) -> None:
        """A run may begin to write metrics at any time, and a resumed one begins another file."""
        signature = _signature(self._metrics)
        if signature and signature == self._metrics_signature:
            return
        with suppress(ValueError):  # the page needs none: e.g. the metrics of several runs
            self._metrics = run_files((self._path,)).metrics or metrics_near(self._log)
        self._metrics_signature = _signature(self._metrics)
        history = read_history(self._metrics)
        self.version += history != self.history
        self.history = history

    def _over(self) -> list[Step]:
        """The steps that are over: the mean of a step that is being played is that of its fast
        episodes.
        """
        latest = max((step for step, _ in self.steps), default=0)
        still = (time.time() - STILL_S) * 1e9
        return [
            step
            for (number, _), step in self.steps.items()
            if not self.followed
            or number < latest
            or number in self.history
            or max(changed for *_, changed in step.signature) < still
        ]


def runs_at(paths: Sequence[Path], *, followed: bool = False) -> list[Run]:
    """The runs in these folders, each with its name.

    Raises:
        ValueError: a folder is given twice.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise ValueError("a run is given twice; name each once")
    names = [run_name(path) for path in paths]
    return [
        Run(path, name if names.count(name) == 1 else str(path), followed=followed)
        for path, name in zip(paths, names, strict=True)
    ]


def page_index(indexes: Sequence[Mapping[str, Any]], title: str) -> dict[str, Any]:
    """The index of a page from those of its runs."""
    words = {"flags": list(FLAGS), "trained": list(TRAINED), "roles": TRAINS}
    return {"title": title, "runs": indexes} | words


def block_name(at: StepOfSplit) -> str:
    """Name of a step's conversations on the page."""
    return f"block/{at[0]}.{at[1]}"


def tokens_name(at: StepOfSplit, record: Record) -> str:
    """Name of an episode's tokens on the page."""
    return f"tokens/{at[0]}.{at[1]}/{quote(record['uid'], safe='')}/{record['session_id']}"


def _totals(split: str, steps: Sequence[Step]) -> dict[str, Any]:
    numbers = [step.stats for step in steps if step.stats.split == split]
    stops = sum((Counter(number.stops) for number in numbers), Counter[str]())
    return {"split": split, "episodes": sum(number.sessions for number in numbers), "stops": stops}


def _signatures(folder: Path) -> dict[StepOfSplit, Signature]:
    """A training step includes the file of its rows."""
    files: dict[StepOfSplit, list[Path]] = {}
    for path in log_files(folder, (*EPISODES, "rows")):
        files.setdefault(place(path), []).append(path)
    return {
        (step, kind): _signature(paths + (files.get((step, "rows"), []) if kind == "train" else []))
        for (step, kind), paths in files.items()
        if kind != "rows"
    }


def _signature(paths: Sequence[Path]) -> Signature:
    signature = []
    for path in paths:
        with suppress(FileNotFoundError):  # packed or renamed a moment ago
            status = path.stat()
            signature.append((path.name, status.st_size, status.st_mtime_ns))
    return tuple(signature)


def _forget_old(steps: Mapping[StepOfSplit, Step]) -> None:
    """Keep the lines of the newest episodes only."""
    for split in EPISODES:
        num_listed = 0
        for at in sorted((at for at in steps if at[1] == split), reverse=True):
            if num_listed and num_listed + steps[at].stats.sessions > MOST_LISTED:
                steps[at].lines = []
            num_listed += steps[at].stats.sessions
