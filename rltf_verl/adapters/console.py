"""Terminal output of a run: a line a step, our warnings, each foreign warning once.

The trainer runs in a Ray actor. Its output reaches the driver, where Ray prints it behind the
actor's name and number; the driver's own streams take that away from our lines (`QuietStream`).
"""

from __future__ import annotations

import functools
import logging
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from statistics import fmean, median
from typing import Any, TextIO

from omegaconf import DictConfig

from rltf_verl.texts import counted

RECENT = 10
"""Steps that a step is compared with, and that the time left is estimated from."""
MARK = "rltf: "
"""Begins our log lines."""

# `ESC [ 1 ; 31 m`: colours and moves of the cursor.
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_BY_RAY = re.compile(r"\((?:\S+ )?pid=\d+(?:, ip=\S+)?\) ")
"""Ray's beginning of a line: `(TaskRunnerV1 pid=29638, ip=10.0.0.2) `."""
_OURS = re.compile(rf"{MARK}|step \d+/\d+ · |validation at step \d+ · ")
_WARNING = re.compile(r"\bwarn(?:ing)?\b|Warning: ", re.IGNORECASE)
_ERROR = re.compile(r"error|exception|traceback|critical|fatal|died|killed", re.IGNORECASE)
_INFO = re.compile(
    # `[2026-01-02 03:04:05,678 INFO …`, `(Actor pid=7) DEBUG …`, `50%|█ | 3/6 [00:12<00:12,
    # 4.1s/it]`
    r"(?:\(\S+ pid=\d+\) )?(?:\[?\d{4}-\d\d-\d\d[ T][\d:,.]+[]\s-]+)?\[?(?:INFO|DEBUG)\b"
    r"|.*\d\d:\d\d(?:<\S+)?, .*(?:/s|s/it)"
    r"|Time range: last |Per-operation statistics: "
)
"""A log record below a warning, a progress bar of tqdm, or the last two of the lines in which
TransferQueue says every five minutes what it did.
"""
_CHANGES = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:,.]+|\s*\[repeated \d+x across cluster\].*")
"""Parts in which two equal warnings differ: the time, and Ray's count of them."""


class StepLines:
    """A backend of verl's `Tracking` that prints a line for each step and each validation.

    Args:
        num_steps: of the whole run.
        num_samples: episodes of each problem in a validation.
    """

    def __init__(self, num_steps: int, num_samples: int = 1) -> None:
        self._num_steps, self._num_samples = num_steps, num_samples
        self._first = deque[float](maxlen=RECENT)
        self._seconds = deque[float](maxlen=RECENT)
        self._validated: float | None = None

    def log(self, data: Mapping[str, Any], step: int) -> None:
        """Print the lines of a step's metrics."""
        for line in self.lines(data, step):
            print(line, flush=True)

    def lines(self, data: Mapping[str, Any], step: int) -> Iterator[str]:
        """The step and its validation; a number that is missing leaves its part out."""
        if "timing_s/step" in data:
            yield " · ".join([f"step {step}/{self._num_steps}", *self._step(data, step)])
        first, num = _over_sources(data, "turn_1/acc")
        if first is not None:
            parts = self._validation(data, first, num)
            yield " · ".join([f"validation at step {step}", *parts])

    def _step(self, data: Mapping[str, Any], step: int) -> Iterator[str]:
        first = data.get("rltf/turn_1/acc")
        if first is not None:
            change = f" ({first - fmean(self._first):+.2f})" if self._first else ""
            yield f"first {first:.2f}{change}"
            self._first.append(first)
        second = data.get("rltf/turn_2/standing")
        if second is not None:
            yield f"second {second:.2f}"
        reward = data.get("rltf/turn_1/reward", data.get("critic/score/mean"))
        if reward is not None:
            yield f"reward {reward:.2f}"
        self._seconds.append(data["timing_s/step"])
        yield f"{self._seconds[-1]:.1f} s"
        left = (self._num_steps - step) * median(self._seconds)
        if left > 0:
            yield f"{_duration(left)} left"
        warnings = int(data.get("rltf/warnings", 0))
        if warnings:
            yield counted(warnings, "warning")

    def _validation(self, data: Mapping[str, Any], first: float, num: float) -> Iterator[str]:
        before = "" if self._validated is None else f"{self._validated:.2f} → "
        self._validated = first
        yield f"first {before}{first:.2f}"
        second, _ = _over_sources(data, "turn_2/standing")
        if second is not None:
            yield f"second {second:.2f}"
        yield f"{num / self._num_samples:.0f} problems"


def show_steps(tracking: Any, config: DictConfig, num_steps: int) -> None:
    """Add the lines to the backends of verl's `Tracking`."""
    num_samples = int(config.actor_rollout_ref.rollout.val_kwargs.n)
    tracking.logger.setdefault("rltf", StepLines(num_steps, num_samples))


def quiet_verl(trainer_base: Any, config: DictConfig) -> None:
    """Without `console` in `trainer.logger`: no dict of metrics and no progress bar of verl's."""
    if "console" not in config.trainer.logger:  # a name, or a list of names
        trainer_base.pprint = lambda *_: None
        trainer_base.tqdm = functools.partial(trainer_base.tqdm, disable=True)


def _over_sources(data: Mapping[str, Any], name: str) -> tuple[float | None, float]:
    """Mean over all episodes of a validation, whatever their data source, and their number."""
    end = f"/{name}"
    sources = [k.removesuffix(end) for k in data if k.startswith("rltf_val/") and k.endswith(end)]
    sizes = [data[f"{source}/session/total"] for source in sources]
    num = float(sum(sizes))
    return (fmean((data[source + end] for source in sources), sizes) if num else None), num


def _duration(seconds: float) -> str:
    """
    >>> _duration(41), _duration(400), _duration(40000)
    ('41 s', '7 min', '11.1 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class QuietStream:
    """A standard stream of the driver. Shows each foreign warning once, and every error; our lines
    without Ray's beginning; no log records below a warning and no progress bars of workers, which
    are in Ray's files; no escape sequences where it is not a terminal.

    Args:
        stream: what it writes to.
        seen: warnings that were shown, here or on the other stream.
    """

    def __init__(self, stream: TextIO, seen: set[str]) -> None:
        self._stream, self._seen = stream, seen
        self._lock = threading.RLock()
        # a thread prints a line and its end in two calls; another one's text or `flush` may come
        # between them
        self._of_thread = threading.local()

    def __getattr__(self, name: str) -> Any:
        """Everything else as it is."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write the lines that are whole; the rest waits for its end, or for `flush`."""
        with self._lock:
            *lines, self._of_thread.rest = (self._rest() + text).split("\n")
            for line in lines:
                shown = self._shown(line)
                if shown is not None:
                    self._stream.write(f"{shown}\n")
            if lines:
                self._stream.flush()
        return len(text)

    def flush(self) -> None:
        """Write what waits of this thread, a progress bar say."""
        with self._lock:
            self._stream.write(self._plain(self._rest()))
            self._of_thread.rest = ""
            self._stream.flush()

    def _rest(self) -> str:
        """The unfinished line of this thread."""
        return getattr(self._of_thread, "rest", "")

    def _plain(self, text: str) -> str:
        return text if self._stream.isatty() else _ANSI.sub("", text)

    def _shown(self, line: str) -> str | None:
        """The line as it is shown; None if it is not."""
        text = _ANSI.sub("", line)
        content = _BY_RAY.sub("", text, count=1)
        # First, so that our warnings are shown as often as they come.
        if _OURS.match(content):
            return content
        error = _ERROR.search(content)
        if _INFO.match(content) and not error:
            return None
        if _WARNING.search(content) and not error:
            warning = _CHANGES.sub("", content)
            if warning in self._seen:
                return None
            self._seen.add(warning)
        return self._plain(line)


class _Format(logging.Formatter):
    """Our records as `rltf: warning: …`, all others as before."""

    def __init__(self, others: logging.Formatter | None) -> None:
        super().__init__(f"{MARK}%(message)s")
        self.others = others or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        if not record.name.startswith("rltf_verl."):
            return self.others.format(record)
        text = super().format(record)
        if record.levelno <= logging.INFO:
            return text
        return text.replace(MARK, f"{MARK}{record.levelname.lower()}: ", 1)


def mark_log_lines() -> None:
    """Let this process log our records in a form that people, and the driver, can tell apart."""
    for handler in logging.getLogger().handlers:
        is_file = isinstance(handler, logging.FileHandler)
        if not is_file and not isinstance(handler.formatter, _Format):
            handler.setFormatter(_Format(handler.formatter))


def quiet_streams() -> None:
    """In the driver: put a `QuietStream` before stdout and stderr."""
    seen: set[str] = set()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        with suppress(AttributeError):
            stream.reconfigure(errors="replace")  # a line that it cannot encode must not raise
        setattr(sys, name, QuietStream(stream, seen))
