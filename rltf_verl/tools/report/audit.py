"""What a run's feedback was worth, by its episode log: leaks, length, empty talk, what the next
attempt made of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from rltf_verl.runlog.turns import Record, answer, graded, says_nothing


@dataclass(frozen=True)
class Said:
    """One feedback, and the attempts that followed it."""

    provider: str
    text: str
    leak: str | None
    """As the leak guard said; None if it did not look."""
    withheld: bool
    """The guard kept it back, so nothing followed."""
    latency_s: float
    before: Record
    """The attempt that it is about."""
    after: Sequence[Record]
    """The attempts that revise it and were graded."""


@dataclass(frozen=True)
class Audit:
    """The feedback of one provider. A share is None where there is nothing to take it of."""

    provider: str
    num: int
    leaks: float | None
    """Of the texts that the guard looked at: those that gave the answer away."""
    withheld: float
    words: float
    """Median."""
    no_op: float
    """Says no more than right or wrong."""
    changed: float | None
    """Of the attempts that followed: those with another answer."""
    better: float | None
    """Of those that followed a wrong attempt: right ones."""
    worse: float | None
    """Of those that followed a right attempt: wrong ones."""
    latency_s: float


def audit(records: Iterable[Record]) -> list[Audit]:
    """One line per provider, by name.

    Args:
        records: of an episode log (`runlog.episodes.read_episodes`).
    """
    by_provider: dict[str, list[Said]] = defaultdict(list)
    for record in records:
        for said in said_in(record["turns"]):
            by_provider[said.provider].append(said)
    return [_audit(name, said) for name, said in sorted(by_provider.items())]


def audit_table(audits: Sequence[Audit]) -> list[tuple[str, ...]]:
    """A header and one line per provider."""
    header = (
        "provider",
        "texts",
        "leaks",
        "withheld",
        "words",
        "no-op",
        "changed",
        "better",
        "worse",
        "seconds",
    )
    return [header, *(_line(a) for a in audits)]


def said_in(turns: Sequence[Record]) -> Iterator[Said]:
    """Everything that providers said, once: what stands in the place of a withheld text is not
    theirs.
    """
    for k, turn in enumerate(turns):
        after = [t for t in turns if t["parent"] == k and graded(t)]
        feedback, withheld = turn.get("feedback"), turn.get("withheld")
        if withheld:
            yield _one(withheld, turn, [], withheld=True)
        if feedback and not (withheld and feedback["fallback"]):
            name = feedback["provider"] + (" (fall-back)" if feedback["fallback"] else "")
            yield _one({**feedback, "provider": name}, turn, after, withheld=False)


def _one(feedback: Record, before: Record, after: Sequence[Record], *, withheld: bool) -> Said:
    return Said(
        provider=feedback["provider"],
        text=feedback["text"],
        leak=feedback.get("leak"),
        withheld=withheld,
        latency_s=feedback["latency_s"],
        before=before,
        after=after,
    )


def _audit(provider: str, said: Sequence[Said]) -> Audit:
    pairs = [(s.before, after) for s in said for after in s.after]
    right_before = [(b["grade"]["correct"], a["grade"]["correct"]) for b, a in pairs]
    return Audit(
        provider=provider,
        num=len(said),
        leaks=share([s.leak != "" for s in said if s.leak is not None]),
        withheld=fmean(s.withheld for s in said),
        words=median(len(s.text.split()) for s in said),
        no_op=fmean(says_nothing(s.text) for s in said),
        changed=share([answer(b) != answer(a) for b, a in pairs]),
        better=share([after for before, after in right_before if not before]),
        worse=share([not after for before, after in right_before if before]),
        latency_s=fmean(s.latency_s for s in said),
    )


def share(values: Sequence[float]) -> float | None:
    """Their mean; None if there are none."""
    return fmean(values) if values else None


def _line(a: Audit) -> tuple[str, ...]:
    shares = (a.changed, a.better, a.worse)
    return (
        a.provider,
        str(a.num),
        shown(a.leaks),
        shown(a.withheld),
        f"{a.words:g}",
        shown(a.no_op),
        *map(shown, shares),
        f"{a.latency_s:.2f}",
    )


def shown(share: float | None) -> str:
    """For a table."""
    return "–" if share is None else f"{100 * share:.1f} %"
