"""The runs of a page: their episode logs and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from itertools import accumulate
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rltf_verl.runlog.episodes import read_episodes
from rltf_verl.runlog.files import EPISODES, Kind, log_files, log_folder, place
from rltf_verl.runlog.turns import Record
from rltf_verl.tools.report.history import History, read_history
from rltf_verl.tools.report.row_words import ENDS, TRAINS
from rltf_verl.tools.report.run_files import metrics_near, run_files, run_name
from rltf_verl.tools.report.stats import EpisodeStats, stats
from rltf_verl.tools.report.view.charts import charts, warnings
from rltf_verl.tools.report.view.episodes import FLAGS, TRAINED, Line, line_of

StepOfSplit = tuple[int, Kind]

_EXAMPLE = Path(str(files("rltf_verl.tools.report"))) / "example"
EXAMPLE = (_EXAMPLE / "moments", _EXAMPLE / "degenerating")
"""Recorded runs for `rltf view --example` and docs/viewer.md."""


class NoEpisodesError(ValueError):
    """A run's folder has no episodes, or none yet."""


@dataclass(frozen=True)
class StepEpisodes:
    """The episodes of one step and split."""

    stats: EpisodeStats
    lines: list[Line]
    records: list[dict[str, Any]]
    """With what they trained."""


class PageRun:
    """A run's folder, or its episode log.

    Raises:
        NoEpisodesError: it holds none.
        ValueError: it cannot be read.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        log = log_folder(path)
        places = sorted({*map(place, log_files(log, EPISODES))})
        read = {at: _read_step(log, at) for at in places}
        self.steps = {at: step for at, step in read.items() if step.records}
        if not self.steps:
            raise NoEpisodesError(f"{path}: no episodes in it")
        metrics: tuple[Path, ...] = ()
        with suppress(ValueError):  # the page needs none: e.g. the metrics of several runs
            metrics = run_files((path,)).metrics or metrics_near(log)
        self.history: History = read_history(metrics)

    def index(self) -> dict[str, Any]:
        """The columns of the list, the charts, and where a conversation is found."""
        steps = list(self.steps.values())
        lines = [line for step in steps for line in step.lines]
        envs = sorted({line.env for line in lines})
        # columns, because JSON repeats the names of rows
        columns = {name: [line[k] for line in lines] for k, name in enumerate(Line._fields)}
        # the page finds an episode's block by its position in the list
        ends = accumulate(len(step.lines) for step in steps)
        splits = sorted({step.stats.split for step in steps})
        # The names are those that the page reads.
        return columns | {
            "name": self.name,
            "envs": envs,
            "env": [envs.index(line.env) for line in lines],
            "charts": charts([step.stats for step in steps], self.history),
            "warnings": warnings(self.history),
            "splits": [_totals(name, steps) for name in splits],
            "starts": [0, *ends][:-1],
            "blocks": [f"block/{step}.{split}" for step, split in self.steps],
        }


def _read_step(log: Path, at: StepOfSplit) -> StepEpisodes:
    step, split = at
    records = read_episodes(log, step, (split,), growing=True)
    return StepEpisodes(stats(records, split), [line_of(record) for record in records], records)


def runs_at(paths: Sequence[Path]) -> list[PageRun]:
    """The runs in these folders, each with its name.

    Raises:
        ValueError: a folder holds no episodes, or cannot be read.
    """
    names = [run_name(path) for path in paths]
    return [
        PageRun(path, name if names.count(name) == 1 else str(path))
        for path, name in zip(paths, names, strict=True)
    ]


def page_index(
    indexes: Sequence[Mapping[str, Any]], title: str, reload_s: int | None
) -> dict[str, Any]:
    """The index of a page from those of its runs; `reload_s` as of `build.page`."""
    words = {"flags": list(FLAGS), "trained": list(TRAINED), "roles": TRAINS, "ends": ENDS}
    return {"title": title, "runs": indexes, "reload_s": reload_s} | words


def tokens_name(at: StepOfSplit, record: Record) -> str:
    """Name of an episode's tokens on the page."""
    return f"tokens/{at[0]}.{at[1]}/{quote(record['uid'], safe='')}/{record['session_id']}"


def _totals(split: str, steps: Sequence[StepEpisodes]) -> dict[str, Any]:
    numbers = [step.stats for step in steps if step.stats.split == split]
    stops = sum((Counter(number.stops) for number in numbers), Counter[str]())
    return {"split": split, "episodes": sum(number.sessions for number in numbers), "stops": stops}
