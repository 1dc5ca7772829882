"""What a run's sessions say about learning from feedback. Every number is a mean over its own
denominator, or None.

An attempt whose grader was out of reach (stop `ungraded`) is neither right nor wrong: it is in no
denominator. A tree of revisions counts attempt by attempt where attempts are counted, and once
where sessions are (`solved`, `standing`, `friction`): as the mean over its lines.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rltf_verl.report.audit import said_in, share
from rltf_verl.runlog.turns import (
    Record,
    answer,
    format_ok,
    graded,
    line_to,
    lines,
    right,
    says_nothing,
    wrong,
)

Line = Sequence[Record]
"""The attempts of a session, each the revision of the one before."""


@dataclass(frozen=True)
class Revisions:
    """Attempts that revise another one, both graded."""

    num: int
    fixed: float | None
    """Wrong before, right now. Of all."""
    broken: float | None
    """Right before, wrong now. Of all."""
    gain: float | None
    """fixed − broken."""
    plasticity: float | None
    """Another answer than before. Of all."""
    corrected: float | None
    """Right. Of those of a wrong attempt."""
    repeated: float | None
    """An answer that stood already somewhere before on the same line. Of all."""


@dataclass(frozen=True)
class TurnStats:
    """The attempts at one turn."""

    turn: int
    """From 1."""
    num: int
    """Attempts that were graded."""
    accuracy: float | None
    """Of the attempts: right."""
    format: float | None
    """Of the attempts: an answer was found and the policy ended the text itself."""
    revisions: Revisions
    solved: float | None
    """Of the sessions that may reach this turn: a right attempt by it, whatever followed it."""
    standing: float | None
    """Of the sessions that may reach this turn: the last answer by it is right (verl's
    `acc_turn_k`).
    """


@dataclass(frozen=True)
class FeedbackStats:
    """What the policy was told, and what it was not."""

    num: int
    """Texts that were given."""
    words: float | None
    """Mean, of the given ones."""
    no_op: float | None
    """Of the given ones: say no more than right or wrong."""
    fallback: float | None
    """Of the given ones: the fixed sentence, because the provider failed."""
    withheld: float | None
    """Of what providers said: kept back by the leak guard."""
    leaks: float | None
    """Of what providers said and the guard looked at: gave the answer away."""


@dataclass(frozen=True)
class Stats:
    """The sessions of one split in a range of steps."""

    split: str
    first_step: int | None
    last_step: int | None
    sessions: int
    turns: tuple[TurnStats, ...]
    revisions: Revisions
    """Of all turns."""
    friction: float | None
    """Of the sessions that began wrong and got a revision: wrong at the end."""
    feedback: FeedbackStats
    stops: Mapping[str, int]
    """How often each reason ended a line."""


def stats(records: Sequence[Record], split: str) -> Stats:
    """Of the sessions of `split` among the records of an episode log; all None and 0 if there are
    none.
    """
    records = [record for record in records if record["split"] == split]
    steps = [record["step"] for record in records]
    sessions = [lines(record["turns"]) for record in records]
    attempts = [
        line_to(record["turns"], k) for record in records for k in range(len(record["turns"]))
    ]
    by_turn: dict[int, list[Line]] = defaultdict(list)
    for line in attempts:
        by_turn[len(line)].append(line)
    return Stats(
        split=split,
        first_step=min(steps, default=None),
        last_step=max(steps, default=None),
        sessions=len(records),
        turns=tuple(
            _turn(k, by_turn[k], _may_reach(records, sessions, k)) for k in sorted(by_turn)
        ),
        revisions=_revisions(attempts),
        friction=_per_session(sessions, _still_wrong),
        feedback=_feedback(records),
        stops=dict(
            Counter(
                line[-1]["stop"] for session in sessions for line in session if line[-1]["stop"]
            )
        ),
    )


def by_steps(records: Iterable[Record], width: int) -> list[Stats]:
    """`stats` of every `width` steps from the first on, training first; a range without sessions is
    left out.
    """
    groups: dict[tuple[str, int], list[Record]] = defaultdict(list)
    records = list(records)
    first = min((record["step"] for record in records), default=0)
    for record in records:
        groups[record["split"], (record["step"] - first) // width].append(record)
    return [stats(groups[key], key[0]) for key in sorted(groups)]


def _may_reach(
    records: Sequence[Record], sessions: Sequence[Sequence[Line]], k: int
) -> Sequence[Sequence[Line]]:
    """The sessions that were to have a turn k: not those of validations of first answers only."""
    return [
        lines
        for record, lines in zip(records, sessions, strict=True)
        if k <= (record.get("horizon") or k)
    ]


def _turn(k: int, attempts: Sequence[Line], sessions: Sequence[Sequence[Line]]) -> TurnStats:
    """Of turn k; `attempts`: the lines that end at it."""
    here = [line[-1] for line in attempts if graded(line[-1])]
    return TurnStats(
        turn=k,
        num=len(here),
        accuracy=share([right(turn) for turn in here]),
        format=share([format_ok(turn) for turn in here]),
        revisions=_revisions(attempts),
        solved=_per_session(sessions, lambda line: _solved(line[:k])),
        standing=_per_session(sessions, lambda line: _standing(line[:k])),
    )


def _revisions(attempts: Sequence[Line]) -> Revisions:
    """Of the lines that end in a revision."""
    pairs = [(line[-2], line[-1]) for line in attempts if _is_revision(line)]
    fixed = share([wrong(before) and right(after) for before, after in pairs])
    broken = share([right(before) and wrong(after) for before, after in pairs])
    return Revisions(
        num=len(pairs),
        fixed=fixed,
        broken=broken,
        gain=None if fixed is None or broken is None else fixed - broken,
        plasticity=share([answer(before) != answer(after) for before, after in pairs]),
        corrected=share([right(after) for before, after in pairs if wrong(before)]),
        repeated=share([_repeats(line) for line in attempts if _is_revision(line)]),
    )


def _is_revision(line: Line) -> bool:
    return len(line) > 1 and graded(line[-2]) and graded(line[-1])


def _repeats(line: Line) -> bool:
    return answer(line[-1]) in {answer(turn) for turn in line[:-1]}


def _per_session(
    sessions: Sequence[Sequence[Line]], value: Callable[[Line], bool | None]
) -> float | None:
    """Mean over the sessions of the mean over their lines; where `value` is None, the line says
    nothing.
    """
    of_lines = [[v for line in session if (v := value(line)) is not None] for session in sessions]
    return share([sum(values) / len(values) for values in of_lines if values])


def _solved(line: Line) -> bool | None:
    if any(map(right, line)):
        return True
    return False if all(map(graded, line)) else None


def _standing(line: Line) -> bool | None:
    return right(line[-1]) if graded(line[-1]) else None


def _still_wrong(line: Line) -> bool | None:
    return wrong(line[-1]) if len(line) > 1 and wrong(line[0]) and graded(line[-1]) else None


def _feedback(records: Sequence[Record]) -> FeedbackStats:
    given = [turn["feedback"] for record in records for turn in record["turns"] if turn["feedback"]]
    said = [said for record in records for said in said_in(record["turns"])]
    return FeedbackStats(
        num=len(given),
        words=share([len(feedback["text"].split()) for feedback in given]),
        no_op=share([says_nothing(feedback["text"]) for feedback in given]),
        fallback=share([feedback["fallback"] for feedback in given]),
        withheld=share([one.withheld for one in said]),
        leaks=share([one.leak != "" for one in said if one.leak is not None]),
    )
