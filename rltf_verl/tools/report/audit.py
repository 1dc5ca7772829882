"""What a run's feedback was worth, by its episode log: leaks, length, empty talk, and the attempts
that followed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from rltf_verl.runlog.turns import Record, answer, graded, says_nothing


@dataclass(frozen=True)
class _Given:
    """One feedback, and the attempts that followed it."""

    provider: str
    feedback: Record
    withheld: bool
    """The guard kept it back, so nothing followed."""
    before: Record
    """The attempt that it is about."""
    after: Sequence[Record]
    """The graded attempts that revise it."""


@dataclass(frozen=True)
class Audit:
    """The feedback of one provider. A share without cases is None."""

    provider: str
    num: int
    leaks: float | None
    """Share of the checked texts that gave the answer away."""
    withheld: float
    words: float
    """Median."""
    no_op: float
    """Texts that hold no more than right or wrong."""
    changed: float | None
    """Share of the attempts that followed with another answer."""
    better: float | None
    """Share of right ones among those that followed a wrong attempt."""
    worse: float | None
    """Share of wrong ones among those that followed a right attempt."""
    latency_s: float


def audit(records: Iterable[Record]) -> list[Audit]:
    """One line per provider, by name.

    Args:
        records: of an episode log (`runlog.episodes.read_episodes`).
    """
    by_provider: dict[str, list[_Given]] = defaultdict(list)
    for record in records:
        for given in _given_in(record["turns"]):
            by_provider[given.provider].append(given)
    return [_audit(name, texts) for name, texts in sorted(by_provider.items())]


def _given_in(turns: Sequence[Record]) -> Iterator[_Given]:
    """Every text of a provider once; what replaces a withheld text is not the provider's."""
    for k, turn in enumerate(turns):
        feedback, withheld = turn.get("feedback"), turn.get("withheld")
        if withheld:
            yield _Given(withheld["provider"], withheld, True, turn, [])
        if feedback and not (withheld and feedback["fallback"]):
            name = feedback["provider"] + (" (fall-back)" if feedback["fallback"] else "")
            after = [t for t in turns if t["parent"] == k and graded(t)]
            yield _Given(name, feedback, False, turn, after)


def _audit(provider: str, texts: Sequence[_Given]) -> Audit:
    pairs = [(given.before, after) for given in texts for after in given.after]
    verdicts = [(b["grade"]["correct"], a["grade"]["correct"]) for b, a in pairs]
    leaks = [given.feedback.get("leak") for given in texts]
    return Audit(
        provider=provider,
        num=len(texts),
        leaks=_share([leak != "" for leak in leaks if leak is not None]),
        withheld=fmean(given.withheld for given in texts),
        words=median(len(given.feedback["text"].split()) for given in texts),
        no_op=fmean(says_nothing(given.feedback["text"]) for given in texts),
        changed=_share([answer(b) != answer(a) for b, a in pairs]),
        better=_share([after for before, after in verdicts if not before]),
        worse=_share([not after for before, after in verdicts if before]),
        latency_s=fmean(given.feedback["latency_s"] for given in texts),
    )


def _share(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
