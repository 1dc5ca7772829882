"""The numbers of `stats` for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rltf_verl.report.audit import shown
from rltf_verl.report.stats import Stats

Table = list[tuple[str, ...]]


def turn_table(ranges: Sequence[Stats]) -> Table:
    """A header, and one line per range and turn."""
    table: Table = [("split", "steps", "turn", "attempts", "right", "format", "fixed", "broken", "gain", "changed",
                     "corrected", "repeated", "solved", "standing")]  # fmt: skip
    for s in ranges:
        for t in s.turns:
            r = t.revisions
            shares = (t.accuracy, t.format, r.fixed, r.broken, r.gain, r.plasticity, r.corrected, r.repeated, t.solved,
                      t.standing)  # fmt: skip
            table.append((s.split, _steps(s), str(t.turn), str(t.num), *map(shown, shares)))
    return table


def session_table(ranges: Sequence[Stats]) -> Table:
    """A header, and one line per range."""
    table: Table = [("split", "steps", "sessions", "friction", "feedback", "words", "no-op", "fall-back", "withheld",
                     "leaks", "ended")]  # fmt: skip
    for s in ranges:
        f = s.feedback
        words = "–" if f.words is None else f"{f.words:.1f}"
        shares = map(shown, (f.no_op, f.fallback, f.withheld, f.leaks))
        ended = ", ".join(f"{stop} {num}" for stop, num in sorted(s.stops.items()))
        table.append((s.split, _steps(s), str(s.sessions), shown(s.friction), str(f.num), words, *shares, ended))
    return table


def _steps(s: Stats) -> str:
    return str(s.first_step) if s.first_step == s.last_step else f"{s.first_step}–{s.last_step}"
