"""A run that still trains, as the page asks for it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rltf_verl.runlog.metrics_file import processes_of
from rltf_verl.tools.report.live.log import GrowingLog, Place, Step, find, newest
from rltf_verl.tools.report.live.metrics import GrowingMetrics
from rltf_verl.tools.report.run_files import metrics_near, run_files
from rltf_verl.tools.report.view.build import as_json, conversation, tokens
from rltf_verl.tools.report.view.curves import curves_of
from rltf_verl.tools.report.view.index import Line, has_tokens, list_index
from rltf_verl.tools.report.view.training import training_curves, warnings

READ_S = 1.0
"""Seconds that one look may read; a long run's old steps come in later ones, the newest first."""
SEARCH_S = 30.0
"""Between two searches for files of a run of which a part is missing."""

UNNAMED = ("episodes", "checkpoints")
"""Folders that say nothing of whose they are."""


class LiveRun:
    """One run's folder, which need not exist yet; `refresh` in one thread, the rest in any."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.version = 0
        """Counts what changed."""
        self._path = path
        self._log: GrowingLog | None = None
        self._metrics = GrowingMetrics()
        self._metric_paths: tuple[Path, ...] = ()
        self._searched = float("-inf")
        self._trouble = ""
        self._numbers: dict[str, Any] = {"curves": [], "warnings": [], "totals": []}
        self._of_metrics: tuple[list[Any], list[Any]] = ([], [])
        """Curves and warnings; in a long run they take longer than the rest of a look."""
        self._num_whole = 0

    def refresh(self) -> bool:
        """Look at the disk; whether everything there has been read. A disk that does not answer is
        tried again at the next look.
        """
        try:
            self._search()
            changed = self._metrics.refresh(self._metric_paths)
            if changed:
                history = self._metrics.history
                self._of_metrics = training_curves(history), warnings(history)
            if self._log is not None:
                changed = self._log.refresh(time.monotonic() + READ_S) or changed
        except OSError as error:
            self._trouble = str(error)
            return True
        whole = self._log.whole(self._metrics.history) if self._log else []
        if changed or len(whole) != self._num_whole:
            self._num_whole = len(whole)
            self._numbers = _numbers(whole, *self._of_metrics)
            self.version += 1
        return self._log is None or not self._log.more

    def _search(self) -> None:
        """Find the log and the metrics; a run may begin to write them at any time."""
        if self._metric_paths:
            with suppress(FileNotFoundError):  # with those of a process that resumed the run
                found = (one for path in self._metric_paths for one in processes_of(path))
                self._metric_paths = tuple(dict.fromkeys(found))
        if self._log is not None and self._metric_paths:
            return
        if time.monotonic() - self._searched < (SEARCH_S if self._log else 0):
            return
        self._searched = time.monotonic()
        try:
            files = run_files((self._path,))
        except (ValueError, OSError) as error:
            self._trouble = str(error)
            return
        self._trouble = ""
        if files.log is not None and self._log is None:
            self._log = GrowingLog(files.log)
        self._metric_paths = files.metrics or (metrics_near(files.log) if files.log else ())

    def status(self) -> dict[str, Any]:
        """Where the run stands, in a few words and numbers."""
        steps = self._log.steps if self._log else {}
        firing = [w["name"] for w in self._numbers["warnings"] if w["to"] is None]
        return {
            "name": self.name,
            "step": max((step for step, _ in steps), default=None),
            "changed": self._log.changed_at if self._log else None,
            "waits": "" if steps else self._trouble or f"{self._path}: no episodes yet",
            "firing": firing,
        }

    def numbers(self) -> dict[str, Any]:
        """Curves and warnings, for the charts of several runs."""
        return {"name": self.name} | {k: self._numbers[k] for k in ("curves", "warnings")}

    def index(self, title: str) -> dict[str, Any]:
        """What the page holds of all episodes of the list."""
        listed = self._log.listed() if self._log else {}
        lines: list[Line] = []
        starts = []
        for step in listed.values():
            starts.append(len(lines))
            lines += step.lines or ()
        older = len(self._log.steps) - len(listed) if self._log else 0
        return (
            list_index(lines, title)
            | self._numbers
            | {
                "name": self.name,
                "starts": starts,
                "blocks": [_name(at) for at in listed],
                "versions": [step.version for step in listed.values()],
                "older": older,
            }
        )

    def block(self, name: str) -> bytes | None:
        """The episodes of a step."""
        at = self._place(name)
        if at is None or self._log is None:
            return None
        records = self._log.records(at)
        return f"[{','.join(as_json(conversation(record)) for record in records)}]".encode()

    def tokens(self, name: str, uid: str, episode: int) -> bytes | None:
        """The tokens of an episode's rows."""
        at = self._place(name)
        if at is None or self._log is None:
            return None
        records = self._log.records(at)
        k = find(records, uid, episode)
        if k is None or not has_tokens(records[k]):
            return None
        return as_json(tokens(records[k])).encode()

    def _place(self, name: str) -> Place | None:
        """The step that a name of `index` means; nothing else is read."""
        steps = self._log.listed() if self._log else {}
        return next((at for at in steps if _name(at) == name), None)


def _numbers(steps: Sequence[Step], trained: list[Any], warned: list[Any]) -> dict[str, Any]:
    cut = {step.number for step in steps if step.first_answers_only}
    return {
        "curves": curves_of([step.stats for step in steps], cut) + trained,
        "warnings": warned,
        "totals": [asdict(one) for one in newest(steps)],
    }


def _name(at: Place) -> str:
    return f"{at[0]}.{at[1]}"


class LiveRuns:
    """The runs of one page."""

    def __init__(self, runs: Sequence[LiveRun], title: str) -> None:
        self.runs, self.title = runs, title
        self._cached: dict[int, tuple[tuple[int, ...], bytes]] = {}

    def refresh(self) -> bool:
        """Look at the disk, once; whether everything there has been read."""
        caught_up = [run.refresh() for run in self.runs]
        return all(caught_up)

    @property
    def version(self) -> tuple[int, ...]:
        """Of each run."""
        return tuple(run.version for run in self.runs)

    def index(self, number: int, have: str) -> bytes:
        """JSON of a run's index with the others' numbers beside it; only where they stand, if the
        page has this version.
        """
        version = self.version
        word = "-".join(map(str, version))
        status: Mapping[str, Any] = {
            "version": word,
            "now": time.time(),
            "runs": [run.status() for run in self.runs],
        }
        if have == word:
            return json.dumps(status).encode()
        cached = self._cached.get(number)
        if cached is None or cached[0] != version:
            others = [run.numbers() for run in self.runs if run is not self.runs[number]]
            body = self.runs[number].index(self.title) | {"others": others, "run": number}
            cached = self._cached[number] = (version, as_json(body).encode())
        return json.dumps(status).encode()[:-1] + b', "index": ' + cached[1] + b"}"


def live_runs(paths: Sequence[Path]) -> list[LiveRun]:
    """The runs in these folders, each with a name of its own.

    Raises:
        ValueError: a folder is given twice.
    """
    whole = [path.resolve() for path in paths]
    if len(set(whole)) < len(whole):
        raise ValueError("a run is given twice")
    names = [next((p for p in reversed(w.parts) if p not in UNNAMED), str(w)) for w in whole]
    return [
        LiveRun(path, name if names.count(name) == 1 else str(path))
        for path, name in zip(paths, names, strict=True)
    ]
