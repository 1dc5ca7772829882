"""The numbers of `stats` as the viewer draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from rltf_verl.report.session import Record
from rltf_verl.report.stats import Stats, by_steps, stats

Value = Callable[[Stats], float | None]


def curves(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One per number that the log has: label, what it means, whether it is a share, and per split the points.

    Returns:
        `{"label", "help", "share", "train": [[step, value or None]…], "val": […]}`; a curve without any value has no
        points.
    """
    steps = by_steps(records, 1)
    horizon = max((len(s.turns) for s in steps), default=0)
    return [
        {
            "label": label,
            "help": told,
            "share": share,
            **{split: _points(steps, split, value) for split in ("train", "val")},
        }
        for label, told, share, value in _what(horizon)
    ]


def totals(records: Sequence[Record]) -> list[dict[str, Any]]:
    """`stats` of the whole run, per split that was played."""
    return [asdict(s) for s in (stats(records, split) for split in ("train", "val")) if s.sessions]


def _points(steps: Sequence[Stats], split: str, value: Value) -> list[tuple[int | None, float | None]]:
    points = [(s.first_step, value(s)) for s in steps if s.split == split]
    return points if any(v is not None for _, v in points) else []


def _what(horizon: int) -> list[tuple[str, str, bool, Value]]:
    """Label, meaning, is it a share, value."""
    later = [
        (f"Right after turn {k + 1}", "Sessions whose last answer by this turn is right.", True, _standing(k))
        for k in range(1, horizon)
    ]
    return [
        ("First answer right", "Attempts at turn 1 that are right.", True, lambda s: s.turns[0].accuracy if s.turns else None),
        *later,
        ("Fixed", "Revisions that are right where the attempt before was wrong.", True, lambda s: s.revisions.fixed),
        ("Broken", "Revisions that are wrong where the attempt before was right.", True, lambda s: s.revisions.broken),
        ("Corrected", "Of the revisions of a wrong attempt: right.", True, lambda s: s.revisions.corrected),
        ("Changed", "Revisions with another answer than before.", True, lambda s: s.revisions.plasticity),
        ("Friction", "Of the sessions that began wrong and went on: wrong at the end.", True, lambda s: s.friction),
        ("Words of feedback", "Mean of the texts that were given.", False, lambda s: s.feedback.words),
        ("Leaks", "Of the texts that the guard looked at: gave the answer away.", True, lambda s: s.feedback.leaks),
    ]  # fmt: skip


def _standing(k: int) -> Value:
    return lambda s: s.turns[k].standing if k < len(s.turns) else None
