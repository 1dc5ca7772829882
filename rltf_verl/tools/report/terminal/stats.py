"""The numbers of `stats` for a terminal, in tables that are narrow enough for one."""

from __future__ import annotations

from collections.abc import Sequence

from rltf_verl.tools.report.audit import shown
from rltf_verl.tools.report.stats import Stats, TurnStats

Table = list[tuple[str, ...]]

REVISIONS = ("fixed", "broken", "gain", "plasticity", "corrected", "repeated")


def tables(ranges: Sequence[Stats]) -> list[Table]:
    """Answers and revisions, one line per range and turn; episodes and feedback, one per range.
    Each with a header.
    """
    turns = [(_where(s), t) for s in ranges for t in s.turns]
    return [
        [
            ("steps", "turn", "attempts", "right", "format", "solved", "standing"),
            *(_answers(w, t) for w, t in turns),
        ],
        [
            ("steps", "turn", "num", *REVISIONS),
            *(_revisions(w, t) for w, t in turns if t.revisions.num),
        ],
        [("steps", "episodes", "friction", "ended"), *map(_episodes, ranges)],
        [
            ("steps", "feedback", "words", "no-op", "fall-back", "withheld", "leaks"),
            *map(_feedback, ranges),
        ],
    ]


def _where(s: Stats) -> str:
    return f"{s.split} {s.first_step}" + (f"–{s.last_step}" if s.last_step != s.first_step else "")


def _answers(where: str, t: TurnStats) -> tuple[str, ...]:
    return where, str(t.turn), str(t.num), *map(shown, (t.acc, t.format, t.solved, t.standing))


def _revisions(where: str, t: TurnStats) -> tuple[str, ...]:
    r = t.revisions
    return where, str(t.turn), str(r.num), *(shown(getattr(r, name)) for name in REVISIONS)


def _episodes(s: Stats) -> tuple[str, ...]:
    ended = ", ".join(f"{stop} {num}" for stop, num in sorted(s.stops.items()))
    return _where(s), str(s.sessions), shown(s.friction), ended


def _feedback(s: Stats) -> tuple[str, ...]:
    f = s.feedback
    words = "–" if f.words is None else f"{f.words:.1f}"
    shares = (f.no_op, f.fallback_share, f.withheld_share, f.leak_share)
    return _where(s), str(f.num), words, *map(shown, shares)
