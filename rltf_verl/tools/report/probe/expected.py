"""First answers to expect after training with RLTF-SD, by a curve that was fitted to runs.

The share of wrong first answers that training rights is MOST (1 − exp(−Δ / SCALE)), Δ the share
that feedback rights before. `python recipes/pretrained/law.py` makes the runs, fits the curve and
tries it on runs that it has not seen: docs/probe.md. All of them learn a rule that problems share.
Whether there is one shows where feedback on other problems (`rltf/feedback=shuffled`) rights some.
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
    """Share of right first answers; the interval has that of Δ and twice the error. None unless the
    feedback was about other problems and certainly righted an answer.
    """
    first, corrected = probe["first_right"].estimate, probe["corrected"].estimate
    low, high = bounds(corrected)
    if first.value is None or corrected.value is None or not (_shuffled(probe) and low > 0):
        return None
    left = 1 - first.value
    return Estimate(
        first.value + left * righted(corrected.value),
        first.value + left * max(0.0, righted(low) - 2 * ERROR),
        first.value + left * min(1.0, righted(high) + 2 * ERROR),
        corrected.problems,
    )


def _shuffled(probe: Probe) -> bool:
    return probe.setting.provider == "shuffled"


def righted(delta: float) -> float:
    """The share of wrong first answers that training rights.

    Example:
        >>> righted(0.0), round(righted(1.0), 2) == round(MOST, 2)
        (0.0, True)
    """
    return MOST * (1 - exp(-delta / SCALE))


def expected_line(probe: Probe) -> str:
    """For people."""
    what, estimate = "first answers right after RLTF-SD", expected(probe)
    if estimate is not None:
        return f"{what}: {shown(estimate)} %, as {RUNS} runs of a small model ended (docs/probe.md)"
    if _shuffled(probe):
        return f"{what}: no prediction, feedback on other problems rights none"
    return (
        f"{what}: no prediction; one step with rltf/feedback=shuffled, probed by --log, may give it"
    )
