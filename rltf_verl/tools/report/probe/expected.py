"""First answers to expect after training with RLTF-SD, by runs that were made.

In all runs of `python recipes/pretrained/law.py` in which feedback righted at least ENOUGH of the
wrong answers before training, training righted a share near RIGHTED; with less the share was
anything. They all learn a rule that problems share. Whether there is one shows where feedback on
other problems (`rltf/feedback=shuffled`) rights answers too: docs/probe.md.
"""

from __future__ import annotations

from rltf_verl.tools.report.evaluation.bootstrap import Estimate
from rltf_verl.tools.report.evaluation.show import shown
from rltf_verl.tools.report.probe.rules import Probe, bounds

ENOUGH, RIGHTED, RUNS = 0.3, 0.83, 12
ERROR = 0.10
"""Root mean square error of RIGHTED, the mean of some of the runs, for the others."""


def expected(probe: Probe) -> Estimate | None:
    """Share of right first answers, and within twice the error. None unless the feedback was about
    other problems and certainly righted ENOUGH.
    """
    probe = probe.control or probe
    first, corrected = probe["first_right"].estimate, probe["corrected"].estimate
    if first.value is None or not _is_shuffled(probe) or bounds(corrected)[0] < ENOUGH:
        return None
    low, value, high = (
        first.value + (1 - first.value) * min(1.0, RIGHTED + times * ERROR) for times in (-2, 0, 2)
    )
    return Estimate(value, low, high, corrected.problems)


def _is_shuffled(probe: Probe) -> bool:
    return probe.setting.provider == "shuffled"


def expected_line(probe: Probe) -> str:
    """For people."""
    what, estimate = "first answers right after RLTF-SD", expected(probe)
    if probe.control is not None:
        righted = shown(probe.control["corrected"].estimate)
        what = f"wrong answers right after feedback on other problems: {righted} %; {what}"
    if estimate is not None:
        return f"{what}: {shown(estimate)} %, as {RUNS} runs of a small model ended (docs/probe.md)"
    if _is_shuffled(probe.control or probe):
        return f"{what}: no prediction, feedback on other problems rights too few answers"
    return (
        f"{what}: no prediction; one step with rltf/feedback=shuffled, probed by --log, may give it"
    )
