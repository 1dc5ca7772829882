"""Runs and arms (runs that differ in their seed): which are meant, and what their files hold.

`NAME=path` is a seed of the arm NAME; parts of one run are joined by commas.
"""

from __future__ import annotations

import glob
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rltf_verl.runlog.files import log_files, read_files
from rltf_verl.runlog.files import place as place_of
from rltf_verl.runlog.turns import Record
from rltf_verl.tools.report.history import Metrics, read_history
from rltf_verl.tools.report.run_files import Place, run_files, run_name
from rltf_verl.tools.report.stats import EpisodeStats, stats

LOG = "log/"
"""Begins the names of numbers of an episode log."""
SESSIONS, TOKENS = "log/train/sessions", "log/train/tokens"
"""Training episodes; tokens of their attempts, unless the policy wrote feedback too."""
OWN_FEEDBACK = "policy"
"""Feedback that the policy wrote: the log does not count its tokens."""

# `sd-seed3`, `sd_seed=3`
_SEED = re.compile(r"[-_.]*seed[-_=]?\d+$")


@dataclass(frozen=True)
class RunTable:
    """Data of one run."""

    name: str
    """The user's name for it."""
    steps: pd.DataFrame
    """[steps, numbers] by step: metrics, and `log/<split>/…` (see `flat`) with `TOKENS`; NaN where
    a step has none.
    """

    def series(self, name: str) -> pd.Series:
        """A number at the steps that have it."""
        return column(self.steps, name)


@dataclass(frozen=True)
class Quantity:
    """One number per step of every run."""

    name: str
    label: str
    of: Mapping[str, pd.Series]
    """Name of the run -> its evaluations."""


@dataclass(frozen=True)
class Arm:
    """Runs of one method."""

    name: str
    runs: tuple[RunTable, ...]


def column(steps: pd.DataFrame, name: str) -> pd.Series:
    """A column without its NaN; empty without the column."""
    return steps[name].dropna() if name in steps else pd.Series(dtype=float)


def read_arms(arguments: Sequence[str]) -> list[Arm]:
    """Raises ValueError: a run is not there, or holds nothing."""
    return [Arm(name, tuple(map(read_run, places))) for name, places in arms_of(arguments).items()]


def read_run(place: Place) -> RunTable:
    """Raises ValueError: it is not there, or holds nothing."""
    name = ",".join(map(str, place))
    files = run_files(place)
    metrics, log = read_history(files.metrics), read_log(files.log) if files.log else {}
    steps = {step: metrics.get(step, {}) | log.get(step, {}) for step in sorted({*metrics, *log})}
    table = pd.DataFrame.from_dict(steps, orient="index", dtype=float).sort_index()
    if not len(table.columns):
        raise ValueError(f"{name}: no metrics in it; its files are empty")
    return RunTable(name, table)


def arms_of(arguments: Sequence[str]) -> dict[str, list[Place]]:
    """Arm -> its runs, in the order given.

    `NAME=pattern` means one run per match. Without a name, a run is called after its folder, and
    runs whose folders differ in a trailing `seed<number>` only are one arm.

    Raises:
        ValueError: nothing matches a pattern; a run is given twice.
    """
    # a pattern gives several runs of one name
    named = [(name, place) for argument in arguments for name, place in _runs(argument)]
    seen = Counter(tuple(path.resolve() for path in place) for _, place in named)
    for place, times in seen.items():
        if times > 1:
            raise ValueError(f"{place[0]} is given {times} times; a run counts once")
    names = _default_names([place for name, place in named if name is None])
    arms: dict[str, list[Place]] = {}
    for name, place in named:
        arms.setdefault(name or names[place], []).append(place)
    return arms


def _runs(argument: str) -> list[tuple[str | None, Place]]:
    name, equals, rest = argument.partition("=")
    # a folder may be called lr=0.1
    if Path(argument).exists() or not equals:
        return [(None, place) for place in _places(argument)]
    if not name:
        raise ValueError(f"{argument}: an arm needs a name; write NAME={rest}")
    return [(name, place) for place in _places(rest)]


def _places(text: str) -> list[Place]:
    if Path(text).exists():
        return [(Path(text),)]
    if glob.has_magic(text):
        matches = sorted(glob.glob(text))  # noqa: PTH207 - a pattern may begin with a root
        if not matches:
            raise ValueError(f"{text}: no file or folder matches")
        return [(Path(path),) for path in matches]
    return [tuple(Path(part) for part in text.split(","))]


def _default_names(places: Sequence[Place]) -> dict[Place, str]:
    folders = {place: run_name(place[0]) for place in places}
    times = Counter(folders.values())
    # Equal names of different runs: seeds only if they say so.
    unique = {p: name if times[name] == 1 else str(p[0]) for p, name in folders.items()}
    return {p: _SEED.sub("", name) or name for p, name in unique.items()}


def read_log(folder: Path) -> dict[int, Metrics]:
    """Step -> its episodes."""
    files: dict[int, list[Path]] = defaultdict(list)
    for path in log_files(folder):
        files[place_of(path)[0]].append(path)
    return {step: _step(list(read_files(files[step]))) for step in sorted(files)}


def flat(s: EpisodeStats) -> dict[str, float]:
    """The numbers by name, e.g. `log/val/turn_1/acc`, `log/train/turn_2/revisions/fixed`,
    `log/val/friction`.
    """
    prefix = f"{LOG}{s.split}/"
    means = {f"{prefix}{name}": mean for name, mean in s.mean.items()}
    return {f"{prefix}sessions": float(s.sessions), **means}


def _step(records: Sequence[Record]) -> Metrics:
    values: Metrics = {}
    for split in ("train", "val"):
        of_split = stats(records, split)
        if of_split.sessions:
            values |= flat(of_split)
    turns = [turn for record in records if record["split"] == "train" for turn in record["turns"]]
    texts = [turn.get(kind) for turn in turns for kind in ("feedback", "withheld")]
    # where the policy writes feedback too the log counts a part of its tokens: no number then
    if not any(text and text["provider"] == OWN_FEEDBACK for text in texts):
        values[TOKENS] = float(sum(turn.get("num_tokens") or 0 for turn in turns))
    return values
