"""The numbers of `stats` as the viewer draws them."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import asdict
from typing import Any

from rltf_verl.runlog.turns import Record
from rltf_verl.tools.report.stats import Stats, by_steps, stats

SPLITS = ("train", "val")
Value = Callable[[Stats], float | None]
Curve = tuple[str, str, bool, Value]
"""Label, meaning, whether it is a share, and what it is of a step."""

FIRST: Curve = (
    "First answer right",
    "Attempts at turn 1 that are right.",
    True,
    lambda s: _of_turn(s, 0, "acc"),
)
OTHERS: tuple[Curve, ...] = (
    (
        "Fixed",
        "Revisions that are right where the attempt before was wrong.",
        True,
        lambda s: s.revisions.fixed,
    ),
    (
        "Broken",
        "Revisions that are wrong where the attempt before was right.",
        True,
        lambda s: s.revisions.broken,
    ),
    (
        "Corrected",
        "Of the revisions of a wrong attempt: right.",
        True,
        lambda s: s.revisions.corrected,
    ),
    (
        "Plasticity",
        "Revisions with another answer than before.",
        True,
        lambda s: s.revisions.plasticity,
    ),
    (
        "Friction",
        "Of the episodes that began wrong and went on: wrong at the end.",
        True,
        lambda s: s.friction,
    ),
    ("Words of feedback", "Mean of the texts that were given.", False, lambda s: s.feedback.words),
    (
        "Leaks",
        "Of the texts that the guard looked at: gave the answer away.",
        True,
        lambda s: s.feedback.leak_share,
    ),
)


def curves(records: Sequence[Record]) -> list[dict[str, Any]]:
    """One per number: label, what it means, whether it is a share, and per split the points.

    Returns:
        `{"label", "help", "share", "train": [(step, value or None)…], "val": […]}`; no points if no
        step has a value.
    """
    cut = {
        record["step"] for record in records if record["split"] == "val" and record.get("horizon")
    }
    return curves_of(by_steps(records, 1), cut)


def curves_of(steps: Sequence[Stats], cut: Container[int]) -> list[dict[str, Any]]:
    """`curves` of the numbers of each step.

    Args:
        steps: numbers of one step and split each.
        cut: steps whose validation was of first answers only.
    """
    later = [_standing(k, cut) for k in range(1, max((len(s.turns) for s in steps), default=0))]
    return [
        {
            "label": label,
            "help": told,
            "share": share,
            **{split: _points(steps, split, value) for split in SPLITS},
        }
        for label, told, share, value in (FIRST, *later, *OTHERS)
    ]


def totals(records: Sequence[Record]) -> list[dict[str, Any]]:
    """`stats` of the whole run, per split that was played."""
    return [asdict(s) for s in (stats(records, split) for split in SPLITS) if s.sessions]


def _points(
    steps: Sequence[Stats], split: str, value: Value
) -> list[tuple[int | None, float | None]]:
    points = [(s.first_step, value(s)) for s in steps if s.split == split]
    return points if any(v is not None for _, v in points) else []


def _standing(k: int, cut: Container[int]) -> Curve:
    """`cut`: steps whose validation was of first answers only."""

    def value(s: Stats) -> float | None:
        return None if s.split == "val" and s.first_step in cut else _of_turn(s, k, "standing")

    return (
        f"Right after turn {k + 1}",
        "Episodes whose last answer by this turn is right.",
        True,
        value,
    )


def _of_turn(s: Stats, k: int, name: str) -> float | None:
    found: float | None = getattr(s.turns[min(k, len(s.turns) - 1)], name) if s.turns else None
    return found
