"""The advantage of each role in words, with the numbers of the config."""

from __future__ import annotations

from rltf_verl.config import RLTFConfig
from rltf_verl.config.objectives import Scheduled, is_own

TURN_BASELINES = {
    "group_mean": "− mean of the group at this turn",
    "leave_one_out": "− mean of the group's others at this turn",
    "ragged": "− mean of the group at this turn, ended episodes as 0",
    "first_turn": "− mean of the group at turn 1",
    "joined": "− mean over the group's first and refined answers",
    "none": "",
}
"""`rltf.attempt.estimator` -> the baseline of a turn's return."""
DISTILL_BASELINES = {
    "first_turn": "− mean first reward of the group",
    "leave_one_out": "− mean first reward of the group's others",
    "joined": "− mean over the group's first and refined answers",
    "second_turn": "− mean second reward of the group",
    "second_turn_padded": "− mean second reward of the group, ended episodes padded",
    "none": "",
}
"""`rltf.distill.baseline` -> the baseline of the distilled answer's reward."""


NOTHING = ": these tokens train nothing"


def advantage_of(role: str, config: RLTFConfig, *, taught: bool = False) -> str:
    """The weight of a token of the role; `taught`: a teacher scores it too."""
    own = _advantage(role, config)
    if not taught:
        return own
    if config.scales_advantages:
        return f"{own}, scaled by the teacher"
    weight, divergence = weight_of(config.logit_distill, config), config.logit_distill.divergence
    pull = f"{weight} × {divergence.name} to the teacher"
    return f"{own.removesuffix(NOTHING)}; logit_distill: {pull}"


def _advantage(role: str, config: RLTFConfig) -> str:
    weight = {
        "attempt": config.attempt,
        "critique": config.critique,
        "distill": config.distill,
        "feedback_modeling": config.feedback_modeling,
        "imitate": config.imitate,
    }.get(role)
    coefficient = None if weight is None else weight_of(weight, config)
    if coefficient in ("0", "0.0"):
        return f"0{NOTHING}"
    rule = _rule(role, config)
    return rule if coefficient is None else f"{coefficient} × {rule}"


def _rule(role: str, config: RLTFConfig) -> str:
    if role in ("attempt", "critique"):
        baseline = TURN_BASELINES.get(config.attempt.estimator, f"by {config.attempt.estimator}")
        by = " / std" if config.attempt.norm_by_std else ""
        # a baseline without words leaves a blank
        return f"(return at γ = {config.gamma:g} {baseline})".replace(" )", ")") + by
    if role == "distill":
        own = config.distill.baseline
        if own == "rejection":
            return "(1 if right, else 0)"
        baseline = "− your own baseline" if is_own(own) else DISTILL_BASELINES.get(own, own)
        return f"(reward {baseline})".replace(" )", ")")
    if role in ("feedback_modeling", "imitate"):
        return "1, cross-entropy"
    return "by your objective"


def weight_of(settings: object, config: RLTFConfig) -> str:
    """Coefficient of an objective: a number or a ramp."""
    start = config.schedule.start_step if isinstance(settings, Scheduled) else 0
    return _as_text(getattr(settings, "weight", 0)) + (f" from step {start}" if start else "")


def _as_text(value: object) -> str:
    return " → ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
