"""What a run's episodes say about learning from feedback. Every number is a mean over its own
denominator, or None (`runlog.numbers`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import fmean

from rltf_verl.runlog.numbers import Cases, EpisodeTable
from rltf_verl.runlog.turns import Record, lines
from rltf_verl.tools.report.aim import Aim, aims_of


@dataclass(frozen=True)
class Revisions:
    """Attempts that revise another one, both graded. Shares of all of them but for two."""

    num: int
    num_wrong: int
    """Those of a wrong attempt."""
    fixed: float | None
    """Wrong before, right now."""
    broken: float | None
    """Right before, wrong now."""
    gain: float | None
    """fixed − broken."""
    corrected: float | None
    """Right. Of those of a wrong attempt."""
    spoiled: float | None
    """Wrong. Of those of a right attempt."""
    plasticity: float | None
    """Another answer than before."""
    repeated: float | None
    """An answer that stood already somewhere before on the same line."""


@dataclass(frozen=True)
class TurnStats:
    """The attempts at one turn."""

    turn: int
    """From 1."""
    num: int
    """Attempts that were graded."""
    acc: float | None
    """Share of the attempts that are right."""
    format: float | None
    """Share of the attempts with an answer whose text the policy ended itself."""
    revisions: Revisions
    solved: float | None
    """Share of the episodes that may reach this turn with a right attempt by it."""
    standing: float | None
    """Share of the episodes that may reach this turn whose last answer by it is right (verl's
    `acc_turn_k`).
    """


@dataclass(frozen=True)
class FeedbackStats:
    """Feedback that the policy read, and that it did not."""

    num: int
    """Texts that were given."""
    num_checked: int
    """Texts that the leak guard looked at."""
    words: float | None
    """Mean, of the given ones."""
    no_op: float | None
    """Share of the given ones that hold no more than right or wrong."""
    failed_share: float | None
    """Share of the requests without feedback; the episode ended there."""
    fallback_share: float | None
    """Share of the requests answered by the fixed sentence, because the provider failed."""
    withheld_share: float | None
    """Share of the requests whose text the leak guard kept back."""
    leak_share: float | None
    """Share of the checked texts that gave the answer away."""
    aim: float | None
    """Mean share of a text's words that its wrong first answer has and the question lacks, minus
    the same with a sibling's answer (`tools.report.aim`).
    """


@dataclass(frozen=True)
class Stats:
    """The episodes of one split in a range of steps."""

    split: str
    first_step: int | None
    last_step: int | None
    sessions: int
    turns: tuple[TurnStats, ...]
    revisions: Revisions
    """Revisions of all turns."""
    friction: float | None
    """Share of the episodes that began wrong and have a revision: wrong at the end."""
    num_began_wrong: int
    """Those episodes."""
    feedback: FeedbackStats
    stops: Mapping[str, int]
    """How often each reason ended a line."""
    trajectories: Mapping[str, float]
    """Mean number of steps, share of each end (`EpisodeTable.steps`); empty without any."""


def stats(records: Sequence[Record], split: str) -> Stats:
    """The numbers of the episodes of `split`; all None and 0 without episodes."""
    records = [record for record in records if record["split"] == split]
    steps = [record["step"] for record in records]
    table = EpisodeTable.of(records)
    ends = (line[-1]["stop"] for record in records for line in lines(record["turns"]))
    return Stats(
        split=split,
        first_step=min(steps, default=None),
        last_step=max(steps, default=None),
        sessions=len(records),
        turns=tuple(_turn(table, k) for k in range(table.num_turns)),
        revisions=_revisions(table.revisions()),
        friction=table.friction().mean(),
        num_began_wrong=len(table.friction().values),
        feedback=_feedback(table.feedback(), aims_of(records)),
        stops=dict(Counter(filter(None, ends))),
        trajectories={name: mean for name, of in table.steps().items() if (mean := of.mean())},
    )


def by_steps(records: Iterable[Record], width: int) -> list[Stats]:
    """`stats` of every `width` steps from the first on, training first; a range without episodes is
    left out.
    """
    groups: dict[tuple[str, int], list[Record]] = defaultdict(list)
    records = list(records)
    first = min((record["step"] for record in records), default=0)
    for record in records:
        groups[record["split"], (record["step"] - first) // width].append(record)
    return [stats(groups[key], key[0]) for key in sorted(groups)]


def _turn(table: EpisodeTable, k: int) -> TurnStats:
    numbers, revisions = table.answers(k), _revisions(table.revisions(k))
    means = {name: numbers[name].mean() for name in ("acc", "format", "solved", "standing")}
    return TurnStats(turn=k + 1, num=len(numbers["acc"].values), revisions=revisions, **means)


def _revisions(numbers: Mapping[str, Cases]) -> Revisions:
    means = {name: cases.mean() for name, cases in numbers.items()}
    num_wrong = len(numbers["corrected"].values)
    return Revisions(num=len(numbers["gain"].values), num_wrong=num_wrong, **means)


def _feedback(numbers: Mapping[str, Cases], aims: Sequence[Aim]) -> FeedbackStats:
    own = ("num", "num_checked", "aim")
    names = [field.name for field in fields(FeedbackStats) if field.name not in own]
    means = {name: numbers[name].mean() for name in names}
    aim = fmean(aim.own - aim.sibling for aim in aims) if aims else None
    num, num_checked = (len(numbers[name].values) for name in ("words", "leak_share"))
    return FeedbackStats(num=num, num_checked=num_checked, aim=aim, **means)
