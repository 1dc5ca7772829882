"""Findings about what is said, and what it does."""

from __future__ import annotations

from rltf_verl.tools.report.evaluation.bootstrap import Estimate
from rltf_verl.tools.report.probe.finding import (
    Advice,
    Answer,
    Probe,
    Setting,
    Undecided,
    decided,
    shown,
    side,
)
from rltf_verl.tools.report.probe.measures import Measure
from rltf_verl.tools.report.probe.thresholds import EMPTY, FAILS, MENTIONS, TELLS, UNCHANGED


def feedback_tells(p: Probe) -> Answer:
    """The feedback holds the answer."""
    tells, setting = p["tells"], p.setting
    if tells.cases == 0 or setting.provider == "policy":
        return None
    return decided(
        "feedback_tells", tells, TELLS, "feedback that gives the answer away", lambda: _told(p)
    )


def _told(p: Probe) -> Advice:
    setting = p.setting
    held_back = (
        f", guard.action={setting.guard} withholds {shown(p['withheld'])}"
        if p["withheld"].hits
        else ""
    )
    read = (
        f"the policy reads it in {shown(p['reaches'])}"
        if p["reaches"].cases
        else "the policy reads none of it"
    )
    finding = (
        f"the feedback ({setting.provider}) gives the answer away: {shown(p['tells'])};"
        f" {read}{held_back}"
    )
    why = (
        "a second answer can then be a copy: its accuracy says nothing about learning, and SD"
        " distils the copy"
    )
    if setting.may_tell:
        less = "level=hint" if setting.provider == "verifier" else "guard.action=redact"
        meant = f"{why}. rltf.feedback.acknowledge_leaks=true says it is meant"
        return Advice(
            "feedback_tells", False, finding, meant, (f"rltf.feedback.{less} if it is not meant",)
        )
    if setting.guard not in ("none", "warn"):
        why = (
            "the guard cuts or keeps it back: the provider is paid for what no one reads, and"
            " second turns are lost"
        )
    return Advice("feedback_tells", True, finding, why, _against_leaks(setting))


def _against_leaks(setting: Setting) -> tuple[str, ...]:
    changes = []
    if setting.guard in ("none", "warn"):
        changes.append("rltf.feedback.guard.action=redact cuts the passages out")
    elif setting.guard != "regenerate":
        changes.append("rltf.feedback.guard.action=regenerate asks again instead")
    if setting.provider == "judge":
        if setting.options.get("reference") is not False:
            changes.append(
                "rltf.feedback.reference=false: who does not see the answer cannot copy it"
            )
        if setting.options.get("style") != "main_mistake":
            changes.append(
                "rltf.feedback.style=main_mistake asks for one hint, not for hints that lead to the"
                " answer"
            )
    if setting.provider == "verifier":
        changes.append("rltf.feedback.level=hint")
    return tuple(changes)


def nothing_changes(p: Probe) -> Answer:
    """Second answers are the first ones."""
    changed = p["wrong_changed"]
    same = Measure(_complement(changed.estimate), changed.cases - changed.hits, changed.cases)
    what = "wrong answers that are given again after feedback"
    if changed.cases == 0:
        return Undecided(
            "nothing_changes", "no wrong answer was followed by feedback and another answer"
        )
    return decided(
        "nothing_changes",
        same,
        UNCHANGED,
        what,
        lambda: Advice(
            "nothing_changes",
            True,
            f"the feedback changes nothing: {what}: {shown(same)}; it makes right"
            f" {shown(p['corrected'])}",
            "a second turn that repeats the first costs a turn and a feedback, and teaches what the"
            " first one did",
            ("rltf inspect DIR shows what was said and answered", *stronger_feedback(p.setting)),
        ),
    )


def _complement(e: Estimate) -> Estimate:
    low, high = (None if bound is None else 1 - bound for bound in (e.high, e.low))
    return Estimate(None if e.value is None else 1 - e.value, low, high, e.problems)


_STRONGER = {"verdict": "location", "location": "hint"}


def stronger_feedback(setting: Setting) -> tuple[str, ...]:
    """Settings under which feedback says more, or is put in another way."""
    changes: list[str] = []
    if setting.provider == "verifier":
        level = setting.options.get("level")
        changes += (
            [f"rltf.feedback.level={_STRONGER[level]} says more"] if level in _STRONGER else []
        )
    elif setting.provider == "judge":
        style = setting.options.get("style")
        changes += ["rltf.feedback.style=strong_hint says more"] if style != "strong_hint" else []
    elif setting.provider in ("correctness", "try_again"):
        changes += [
            "rltf/feedback=verifier says what is wrong; rltf/feedback=judge where no program can"
        ]
    if setting.context == "fresh" and setting.revise in ("guide", "feedback"):
        changes += ["rltf.episode.revise=critique quotes the attempt beside the feedback"]
    elif setting.context == "fresh" and setting.options.get("style") == "guide":
        changes += [
            "rltf.episode.revise=guide asks for a fresh attempt and does not quote the wrong one"
        ]
    return tuple(changes)


def says_nothing(p: Probe) -> Answer:
    """Right or wrong, and no more."""
    empty = p["says_nothing"]
    if side(empty.estimate, EMPTY) != "above":
        return None
    return Advice(
        "says_nothing",
        False,
        f"feedback that says no more than right or wrong: {shown(empty)}",
        "there is nothing in it to predict (fm) and little to learn a second answer from",
        ("rltf.feedback.level=hint with rltf/feedback=verifier, or rltf/feedback=judge",),
    )


def feedback_fails(p: Probe) -> Answer:
    """No feedback, though it was asked for."""
    fails = p["failed"]
    if side(fails.estimate, FAILS) != "above":
        return None
    busy = (
        ("rltf.feedback.limits.max_attempts=16 if the endpoint is only busy",)
        if "endpoint" in p.setting.options
        else ()
    )
    return Advice(
        "feedback_fails",
        True,
        f"feedback that was asked for and did not come: {shown(fails)}",
        "such episodes have no second turn to learn from, or go on with a fixed sentence",
        ("rltf inspect DIR shows why", *busy),
    )


def mentions(p: Probe) -> Answer:
    """Second answers speak of the feedback."""
    said = p["mentions"]
    if said.estimate.value is None or said.estimate.value < MENTIONS:
        return None
    return Advice(
        "mentions",
        False,
        f"second answers that speak of the feedback: {shown(said)}",
        "distilled behind the first prompt, they teach it to speak of what it has not seen",
        ("rltf.mentions.action=mask",),
    )
