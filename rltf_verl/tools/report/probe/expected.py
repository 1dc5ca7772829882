"""First answers to expect after training with RLTF-SD, by a curve that was fitted to runs.

The share of wrong first answers that training rights is MOST (1 − exp(−Δ / SCALE)), Δ the share
that feedback rights before. `python recipes/pretrained/law.py` makes the runs, fits the curve and
tries it on runs that it has not seen: docs/probe.md.
"""

from __future__ import annotations

from math import exp

from rltf_verl.tools.report.evaluation.bootstrap import Estimate
from rltf_verl.tools.report.evaluation.show import shown
from rltf_verl.tools.report.probe.rules import Probe, bounds

MOST, SCALE = 0.86, 0.13
ERROR = 0.14
"""Root mean square error of the share in runs that the fit had left out."""
RUNS = 26


def expected(probe: Probe) -> Estimate | None:
    """Share of right first answers; the interval has that of Δ and twice the error. None where
    nothing was corrected or feedback tells answers: a second answer may then be a copy, of which
    the curve knows nothing.
    """
    first, corrected = probe["first_right"].estimate, probe["corrected"].estimate
    if first.value is None or corrected.value is None or probe.decide("feedback_tells") != "fails":
        return None
    left, (low, high) = 1 - first.value, bounds(corrected)
    return Estimate(
        first.value + left * righted(corrected.value),
        first.value + left * max(0.0, righted(low) - 2 * ERROR),
        first.value + left * min(1.0, righted(high) + 2 * ERROR),
        corrected.problems,
    )


def righted(delta: float) -> float:
    """The share of wrong first answers that training rights.

    Example:
        >>> righted(0.0), round(righted(1.0), 2) == round(MOST, 2)
        (0.0, True)
    """
    return MOST * (1 - exp(-delta / SCALE))


def expected_line(probe: Probe) -> str:
    """For people."""
    what = "first answers right after RLTF-SD"
    estimate = expected(probe)
    if estimate is None:
        return f"{what}: no prediction, feedback holds answers or corrects none"
    return f"{what}: {shown(estimate)} %, as {RUNS} runs of a small model ended (docs/probe.md)"
