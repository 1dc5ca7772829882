"""Numbers of a run's episodes about learning from feedback. Every number is a mean over its own
denominator (`runlog.numbers`; docs/metrics.md).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rltf_verl.runlog.numbers import Cases, EpisodeTable
from rltf_verl.runlog.turns import Record


@dataclass(frozen=True)
class EpisodeStats:
    """The episodes of one split in a range of steps."""

    split: str
    first_step: int | None
    last_step: int | None
    sessions: int
    num_turns: int
    """Turns of the longest episode."""
    mean: Mapping[str, float]
    """By the names of `cases_by_name`; without those that have no case."""
    num: Mapping[str, int]
    """Number of cases of each mean."""
    stops: Mapping[str, int]
    """Number of lines that each reason ended."""


def cases_by_name(table: EpisodeTable) -> dict[str, Cases]:
    """All numbers: `turn_2/acc`, `turn_2/revisions/fixed`, `revisions/fixed`, `feedback/words`,
    `steps/mean`, `friction`; `standing` is that after the last turn, with no case in a validation
    of first answers only.
    """
    blocks = {
        "revisions": table.revisions(),
        "feedback": table.feedback(),
        "steps": table.steps(),
    }
    for k in range(table.num_turns):
        blocks[f"turn_{k + 1}"] = table.answers(k)
        blocks[f"turn_{k + 1}/revisions"] = table.revisions(k)
    named = {"friction": table.friction()}
    # a validation of first answers has one turn and no episode that may reach a second
    if table.num_turns:
        named["standing"] = table.answers(max(table.num_turns - 1, 1))["standing"]
    for block, numbers in blocks.items():
        named |= {f"{block}/{name}": cases for name, cases in numbers.items()}
    return named


def stats(records: Sequence[Record], split: str) -> EpisodeStats:
    """The numbers of the episodes of `split`."""
    records = [record for record in records if record["split"] == split]
    steps = [record["step"] for record in records]
    table = EpisodeTable.of(records)
    num, mean = dict[str, int](), dict[str, float]()
    for name, cases in cases_by_name(table).items():
        num[name] = len(cases.values)
        value = cases.mean()
        if value is not None:
            mean[name] = value
    ends = [turn["stop"] for record in records for turn in record["turns"][-1:]]
    return EpisodeStats(
        split=split,
        first_step=min(steps, default=None),
        last_step=max(steps, default=None),
        sessions=len(records),
        num_turns=table.num_turns,
        mean=mean,
        num=num,
        stops=dict(Counter(filter(None, ends))),
    )


def by_steps(records: Iterable[Record], width: int) -> list[EpisodeStats]:
    """`stats` of every `width` steps from the first on, training first; a range without episodes is
    left out.
    """
    groups: dict[tuple[str, int], list[Record]] = defaultdict(list)
    records = list(records)
    first = min((record["step"] for record in records), default=0)
    for record in records:
        groups[record["split"], (record["step"] - first) // width].append(record)
    return [stats(groups[key], key[0]) for key in sorted(groups)]
