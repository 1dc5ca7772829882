"""Findings about first answers and budgets."""

from __future__ import annotations

from rltf_verl.tools.report.probe.finding import (
    Advice,
    Answer,
    Probe,
    Undecided,
    decided,
    shown,
    side,
)
from rltf_verl.tools.report.probe.rules_feedback import stronger_feedback
from rltf_verl.tools.report.probe.thresholds import ANSWERED, CUT_OFF, DEAD, FIXES, TOO_LONG


def never_right(p: Probe) -> Answer:
    """Groups whose first answers all fail."""
    groups, n = p["all_wrong_groups"], p.run.sessions
    if groups.cases == 0:
        return Undecided(
            "never_right", f"no group has {n} graded first answers, actor_rollout_ref.rollout.n={n}"
        )
    return decided(
        "never_right",
        groups,
        DEAD,
        f"groups of {n} whose first answers all fail",
        lambda: _never_right(p),
    )


def _never_right(p: Probe) -> Advice:
    rate, corrected = p["first_right"], shown(p["corrected"])
    finding = (
        f"the base solves {rate.hits:g} of {rate.cases} first answers; groups of {p.run.sessions}"
        " that all fail: "
    )
    finding += shown(p["all_wrong_groups"])
    why = (
        "rltf_grpo_single learns nothing from such groups, and the first turn of rltf_grpo next to"
        " nothing"
    )
    if side(p["corrected"].estimate, FIXES) == "above" and not p.copies:
        why += (
            f". But after feedback {corrected} of the wrong ones are right: rltf_sd learns from"
            " those"
        )
        return Advice("never_right", False, finding, why, ("--config-name=rltf_sd",))
    copies = ", which may be copies of what it tells" if p.copies else ""
    why += f"; after feedback {corrected} of the wrong ones are right{copies}"
    return Advice(
        "never_right",
        True,
        finding,
        why,
        (
            "data.train_files=… of easier problems (rltf data build with smaller sizes)",
            "actor_rollout_ref.model.path=… of a stronger base",
            *stronger_feedback(p.setting),
        ),
    )


def always_right(p: Probe) -> Answer:
    """Groups whose first answers are all right."""
    rate, groups, n = p["first_right"], p["all_right_groups"], p.run.sessions
    if groups.cases == 0:
        return None  # said above
    return decided(
        "always_right",
        groups,
        DEAD,
        f"groups of {n} whose first answers are all right",
        lambda: Advice(
            "always_right",
            True,
            f"the base solves {rate.hits:g} of {rate.cases} first answers; groups of {n} all right:"
            f" {shown(groups)}",
            "there is nothing left to learn, and no second turn to learn from: episodes end when"
            " they are solved",
            ("data.train_files=… of harder problems",),
        ),
    )


def dead_groups(p: Probe) -> Answer:
    """Groups without a signal, some for failing and some for succeeding."""
    dead, n = p["dead_groups"], p.run.sessions
    if any(
        side(p[name].estimate, DEAD) != "below" for name in ("all_wrong_groups", "all_right_groups")
    ):
        return None  # said above
    wrong, right = shown(p["all_wrong_groups"]), shown(p["all_right_groups"])
    return decided(
        "dead_groups",
        dead,
        DEAD,
        f"groups of {n} with equal first rewards",
        lambda: Advice(
            "dead_groups",
            side(p["corrected"].estimate, FIXES) != "above",
            f"groups of {n} with equal first rewards: {shown(dead)}; all fail {wrong}, all succeed"
            f" {right}",
            "GRPO compares the answers of a group, and here they are equal",
            (
                "data.train_files=… of problems that are solved now and then",
                f"actor_rollout_ref.rollout.n={2 * n} finds more differences in a group",
            ),
        ),
    )


def no_answer(p: Probe) -> Answer:
    """First answers in which the grader finds nothing to grade."""
    found = p["first_format"]
    if found.cases == 0 or side(found.estimate, ANSWERED) == "above":
        return None
    words = f"first answers with an answer in them: {shown(found)}"
    if side(found.estimate, ANSWERED) == "unknown":
        return Undecided("no_answer", f"{words}; it matters below {100 * ANSWERED:g} %")
    return Advice(
        "no_answer",
        True,
        words,
        "a second answer that learns the form from its prompt is then right, and what is distilled"
        " is the form",
        (
            (
                "data.train_files=… whose prompts ask for the form that rltf.env.name reads (rltf"
                " data check)"
            ),
            "data.max_response_length=… larger, if answers are cut off before they come to it",
        ),
    )


def cut_off(p: Probe) -> Answer:
    """Answers at the token limit."""
    cut, limit = p["truncated"], p.run.answer_tokens
    return decided(
        "cut_off",
        cut,
        CUT_OFF,
        f"answers cut off at {limit} tokens",
        lambda: Advice(
            "cut_off",
            True,
            f"answers cut off at {limit} tokens: {shown(cut)}",
            "they cost the format reward and mostly hold no answer, so accuracy is lower than it"
            " need be",
            (f"data.max_response_length={2 * limit}",),
        ),
    )


def too_long(p: Probe) -> Answer:
    """Later prompts above the budget."""
    over, limit = p["over_budget"], p.run.prompt_tokens
    if over.cases == 0:
        return None
    longest = p.measured.lengths["later_prompt_tokens"]
    enough = (
        int(longest.longest) if longest and longest.longest > limit else 2 * limit
    )  # what was cut has no length
    return decided(
        "too_long",
        over,
        TOO_LONG,
        f"later prompts above {limit} tokens",
        lambda: Advice(
            "too_long",
            True,
            f"later prompts above {limit} tokens: {shown(over)}",
            "training cuts the quoted attempt to fit, or ends the episode where nothing is left"
            " to cut",
            (f"data.max_prompt_length={enough}",),
        ),
    )
