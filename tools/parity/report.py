"""What was compared, what differs, what differs on purpose, and what was not compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Tolerance:
    """How far numbers may be apart; the file's own `meta.tolerance`."""

    abs: float = 2e-6
    rel: float = 1e-5
    loss_sum_abs: float = 2e-5


@dataclass(frozen=True)
class Excuse:
    """A deliberate difference."""

    reason: str
    covers: Callable[[float, float], bool]
    """(ours, theirs) -> whether the two differ in the way that the reason explains."""


@dataclass
class Section:
    """Counts of one case, or of one other part of the file."""

    num_compared: int = 0
    num_different: int = 0
    num_mended: int = 0


@dataclass
class Report:
    """What was compared, and what differs."""

    sections: dict[str, Section] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)
    """One line per number or text that differs, or per list of another length."""
    mended: dict[str, int] = field(default_factory=dict)
    """Reason of a deliberate difference -> numbers that differ for it."""
    not_covered: dict[str, int] = field(default_factory=dict)
    """What has no counterpart here, with the reason -> how often the file has it."""

    @property
    def num_compared(self) -> int:
        """Numbers (and texts) of the whole file that were compared."""
        return sum(section.num_compared for section in self.sections.values())

    def skip(self, what: str, times: int = 1) -> None:
        """Count something of the file that is not compared."""
        self.not_covered[what] = self.not_covered.get(what, 0) + times

    @contextmanager
    def skipping(self, what: str) -> Iterator[None]:
        """Name `what` as not compared, in the middle of it if need be, when it has not the shape
        that is known.
        """
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            self.skip(f"{what}: of another shape than known here ({type(error).__name__}: {error})")

    def skip_unknown(self, where: str, part: Json, known: set[str]) -> None:
        """Name the keys that nothing here looks at."""
        for key in part:
            if key not in known:
                self.skip(f"{where} `{key}`: not a part of the schema that is known here")


@dataclass(frozen=True)
class Check:
    """Compares one case within its tolerance and files what differs."""

    report: Report
    where: str
    tolerance: Tolerance = Tolerance()

    def ids(self, what: str, ours: object, theirs: object) -> None:
        """Compare token ids: a tolerance relative to an id would let its neighbour pass."""
        replace(self, tolerance=Tolerance(0.0, 0.0)).close(what, ours, theirs)

    def close(
        self,
        what: str,
        ours: object,
        theirs: object,
        excuse: Excuse | None = None,
        abs_tol: float | None = None,
    ) -> None:
        """Compare numbers or (nested) lists of them. Null is NaN, which nothing equals."""
        a, b = list(_leaves(ours)), list(_leaves(theirs))
        if len(a) != len(b):
            self._file(
                [f"{what}: this package has {len(a)} numbers, the release {len(b)}"],
                max(len(a), len(b)),
            )
            return
        tol = self.tolerance.abs if abs_tol is None else abs_tol
        wrong = [i for i in range(len(a)) if not _agree(a[i], b[i], tol, self.tolerance.rel)]
        excused = {i for i in wrong if excuse is not None and excuse.covers(a[i], b[i])}
        if excuse is not None and excused:
            self._excuse(excuse.reason, len(excused))
        self._file([_line(what, i, a, b) for i in wrong if i not in excused], len(a))

    def text(self, what: str, ours: str, theirs: object) -> None:
        """Compare two texts; a difference is shown where it begins."""
        if ours == theirs:
            self._file([], 1)
            return
        other = theirs if isinstance(theirs, str) else repr(theirs)
        start = next(
            (i for i, (x, y) in enumerate(zip(ours, other, strict=False)) if x != y),
            min(len(ours), len(other)),
        )
        a, b = (repr(value[start : start + 40]) for value in (ours, other))
        self._file([f"{what}, from character {start}: this package {a}, release {b}"], 1)

    def _file(self, lines: list[str], num_compared: int) -> None:
        self._section.num_compared += num_compared
        self._section.num_different += len(lines)
        self.report.differences += [f"{self.where}: {line}" for line in lines]

    def _excuse(self, reason: str, times: int) -> None:
        self._section.num_mended += times
        self.report.mended[reason] = self.report.mended.get(reason, 0) + times

    @property
    def _section(self) -> Section:
        return self.report.sections.setdefault(self.where.partition("[")[0], Section())


def _agree(a: float, b: float, tol: float, rel: float) -> bool:
    return a == b or (math.isfinite(b) and abs(a - b) <= tol + rel * abs(b))


def _line(what: str, i: int, a: list[float], b: list[float]) -> str:
    return f"{what}{f'[{i}]' if len(a) > 1 else ''}: this package {a[i]:.9g}, release {b[i]:.9g}"


def _leaves(value: object) -> Iterator[float]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield float("nan") if value is None else float(value)  # type: ignore[arg-type]  # JSON numbers and bools
