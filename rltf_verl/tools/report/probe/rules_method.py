"""Findings about the method, and what a step waits for."""

from __future__ import annotations

from rltf_verl.tools.report.probe.finding import Advice, Answer, Probe, Undecided, shown, side
from rltf_verl.tools.report.probe.thresholds import DEAD, EMPTY, FAR, FIXES, MOST, SLOW_S


def far_answers(p: Probe) -> Answer:
    """Second answers that the student would not give."""
    if p.gap is None or p.gap.gap.low is None or p.gap.gap.low < FAR:
        return None
    return Advice(
        "far_answers",
        False,
        f"second answers are {p.gap.gap.value:.2f} nats per token less likely without the feedback"
        f" (95 %: {p.gap.gap.low:.2f} to {p.gap.gap.high:.2f}, {p.gap.answers} answers)",
        "distillation then pulls at what the student would not say; predicting the feedback"
        " does not",
        (
            "--config-name=rltf_sd_fm, or rltf_fm",
            "rltf.distill.log_prob_floor=-5.0 stays: it leaves such tokens out",
        ),
    )


def slow_judge(p: Probe) -> Answer:
    """A step waits for its judge."""
    load = p.judge
    if load is None or load.seconds_per_step is None or load.seconds_per_step < SLOW_S:
        return None
    return Advice(
        "slow_judge",
        False,
        f"a step needs {load.calls_per_step:.0f} calls, which take {load.seconds_per_step:.0f} s at"
        f" {load.bound_by}",
        "the step cannot end before its last feedback",
        (
            (
                f"rltf.feedback.limits.{load.bound_by}=… higher, if the endpoint can take it (rltf"
                " judge bench)"
            ),
            "rltf.feedback.endpoint.max_tokens=… lower, or thinking off (docs/feedback.md)",
        ),
    )


def preset(p: Probe) -> Answer:
    """Which method to begin with; docs/methods.md, "When to use which"."""
    corrected = p["corrected"]
    if corrected.cases == 0 or p.copies:
        return None
    found = f"after feedback, wrong answers become right in {shown(corrected)}"
    if side(corrected.estimate, FIXES) == "unknown":
        return Undecided("preset", f"{found}; it matters from {100 * FIXES:g} % on")
    method = _method(p)
    return None if method is None else Advice("preset", False, found, *method)


def _method(p: Probe) -> tuple[str, tuple[str, ...]] | None:
    """Why, and what to choose; None where nothing has a signal, which another finding says."""
    if side(p["corrected"].estimate, MOST) == "above":
        why = "most second answers are right, so nearly all of what is distilled is right too"
        return why, (
            "--config-name=rltf_sd",
            "--config-name=rltf rltf/method=sft as the control that it should beat",
        )
    if side(p["corrected"].estimate, FIXES) == "above":
        control = "--config-name=rltf_grpo_single beside it shows what feedback is worth"
        return "some second answers are right, and SD learns from the wrong ones too", (
            "--config-name=rltf_sd",
            control,
        )
    if side(p["dead_groups"].estimate, DEAD) == "above":
        if side(p["says_nothing"].estimate, EMPTY) == "above":
            return None
        why = (
            "neither second answers nor groups teach yet; predicting the feedback has a gradient,"
            " and pays late"
        )
        return why, ("--config-name=rltf_fm",)
    return "second turns do not repay their price yet; first answers have a signal", (
        "--config-name=rltf_grpo_single",
        "stronger feedback, probed again, before rltf_sd",
    )
