"""What a finding is, and when it is certain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rltf_verl.tools.report.evaluation.bootstrap import LEVEL, Estimate
from rltf_verl.tools.report.probe.judge import JudgeLoad
from rltf_verl.tools.report.probe.log_probs import Gap
from rltf_verl.tools.report.probe.measures import Measure, Measured, TrainingRun
from rltf_verl.tools.report.probe.thresholds import TELLS


@dataclass(frozen=True)
class Setting:
    """What feedback the episodes were played with."""

    provider: str
    options: Mapping[str, Any]
    guard: str
    """`rltf.feedback.guard.action`."""
    acknowledged: bool
    """The provider is meant to tell the answer."""
    revise: str | None
    """`rltf.episode.revise`; None where the log does not say which template fitted."""
    context: str
    """`rltf.episode.context`."""

    @property
    def may_tell(self) -> bool:
        """It is meant to tell, or it is the policy, which can tell itself only what it knows."""
        return self.acknowledged or self.provider == "policy"


@dataclass(frozen=True)
class Probe:
    """Everything that advice is taken from."""

    measured: Measured
    run: TrainingRun
    setting: Setting
    judge: JudgeLoad | None
    gap: Gap | None

    def __getitem__(self, name: str) -> Measure:
        return self.measured.shares[name]

    @property
    def copies(self) -> bool:
        """Right second answers may be copies: the answer reaches the policy, and nobody said that
        it should.
        """
        return not self.setting.may_tell and side(self["reaches"].estimate, TELLS) == "above"


@dataclass(frozen=True)
class Advice:
    """One finding."""

    rule: str
    blocks: bool
    """Do not train before it is changed."""
    finding: str
    why: str
    change: tuple[str, ...]
    """`key=value`, then why, if that is not plain."""


@dataclass(frozen=True)
class Undecided:
    """A question that the episodes are too few to answer."""

    rule: str
    finding: str


Answer = Advice | Undecided | None
Side = Literal["above", "below", "unknown"]


def side(estimate: Estimate, threshold: float) -> Side:
    """On which side of a threshold a share is, by its whole interval; without cases `unknown`."""
    low, high = bounds(estimate)
    return "above" if low >= threshold else "below" if high < threshold else "unknown"


def bounds(estimate: Estimate) -> tuple[float, float]:
    """The interval; the bootstrap has none where all P problems agree: a share of 1 − 0.05^(1/P)
    may still differ.
    """
    value = estimate.value
    if value is None or estimate.low is None or estimate.high is None:
        return 0.0, 1.0
    if estimate.low < estimate.high:
        return estimate.low, estimate.high
    unseen = 1 - (1 - LEVEL) ** (1 / estimate.problems)
    return max(0.0, value - unseen), min(1.0, value + unseen)


def shown(measure: Measure) -> str:
    """`62.5 % (5 of 8; 95 %: 51.0 to 73.1)`.

    Example:
        >>> shown(Measure(Estimate(0.5, 0.25, 0.75, 4), 4.0, 8))
        '50.0 % (4 of 8; 95 %: 25.0 to 75.0)'
    """
    if measure.estimate.value is None:
        return "not known"
    low, high = bounds(measure.estimate)
    of = f"{measure.hits:.4g} of {measure.cases}"
    return f"{100 * measure.estimate.value:.1f} % ({of}; 95 %: {100 * low:.1f} to {100 * high:.1f})"


def decided(
    rule: str, measure: Measure, threshold: float, what: str, advice: Callable[[], Advice]
) -> Answer:
    """The advice if the measure is surely above the threshold, None if it is surely below, else
    what is open.
    """
    where = side(measure.estimate, threshold)
    if where == "above":
        return advice()
    if where == "below":
        return None
    return Undecided(rule, f"{what}: {shown(measure)}; it matters from {100 * threshold:g} % on")
