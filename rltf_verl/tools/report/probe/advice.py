"""From a probe to what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from rltf_verl.tools.report.probe.finding import Advice, Answer, Probe, Undecided
from rltf_verl.tools.report.probe.rules_base import (
    always_right,
    cut_off,
    dead_groups,
    never_right,
    no_answer,
    too_long,
)
from rltf_verl.tools.report.probe.rules_feedback import (
    feedback_fails,
    feedback_tells,
    mentions,
    nothing_changes,
    says_nothing,
)
from rltf_verl.tools.report.probe.rules_method import far_answers, preset, slow_judge

Verdict = Literal["go", "change first", "too few episodes"]

RULES: tuple[Callable[[Probe], Answer], ...] = (
    never_right,
    always_right,
    dead_groups,
    feedback_tells,
    nothing_changes,
    no_answer,
    cut_off,
    too_long,
    feedback_fails,
    says_nothing,
    mentions,
    far_answers,
    slow_judge,
    preset,
)


def advise(probe: Probe) -> tuple[Verdict, list[Advice], list[Undecided]]:
    """What to do: `change first` if a finding that blocks is certain, `too few episodes` if one is
    open, else `go`.
    """
    answers = [rule(probe) for rule in RULES]
    advice = [answer for answer in answers if isinstance(answer, Advice)]
    undecided = [answer for answer in answers if isinstance(answer, Undecided)]
    if any(one.blocks for one in advice):
        return "change first", advice, undecided
    return "too few episodes" if undecided else "go", advice, undecided
