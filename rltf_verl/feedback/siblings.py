"""Feedback on a whole group: all attempts that failed at this turn, each with its feedback (GOLF,
arXiv 2603.04597).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rltf_verl.feedback import has_trait, provider_of_block
from rltf_verl.feedback.base import FeedbackProvider, FeedbackRequest, Subject, ask
from rltf_verl.feedback.group import WAIT_S, Remark
from rltf_verl.prompts.quote import quoted, shown_of
from rltf_verl.types import Feedback

INTRODUCTION = "Attempts at this question, all of them wrong, each with feedback on it:"
ROOM = 0.8
"""Share of the prompt budget for question and attempts; the rest is the template's."""


class SiblingsProvider(FeedbackProvider):
    """Asks another provider about each attempt, and shows every failed episode of the group the
    same text: all attempts of this turn that failed, each with its feedback.

    Short attempts come first, as many as fit the prompt. An episode waits until the others are as
    far as it is itself, so never in a circle and never longer than `WAIT_S`; the text then does not
    depend on who is faster. Played alone, an episode sees its own attempt.

    Args:
        each: block `{provider: …, its options}`: the provider of feedback on each attempt.

    Raises:
        ValueError: a value that cannot be, or what the inner provider raises.
    """

    name = "siblings"
    constant = False
    subject: Subject = "group"
    waits_for_others = True
    wait_s = WAIT_S

    def __init__(self, each: Mapping[str, Any]) -> None:
        self.each = provider_of_block("each", each)
        if has_trait("self_written", each) or has_trait("waits_for_others", each):
            raise ValueError(
                f"rltf.feedback.each.provider={each['provider']}: must be about one attempt, and"
                " not be the policy itself, whose critiques are trained on; choose verifier,"
                " judge, …"
            )
        self.sees_reference = self.each.sees_reference
        self.tells_answer = self.each.tells_answer
        self.judges = self.each.judges

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The group's text, with the verdict and the cost of this attempt's own feedback; a right
        attempt hears that alone. Raises FeedbackUnavailable if this attempt has none.
        """
        turn, group, remark = len(request.turns) - 1, request.group, None
        try:
            feedback = await ask(self.each, request)
            if not request.turns[-1].grade.correct:
                attempt = shown_of(request.turns[-1].attempt.text, request.quote)
                remark = Remark(request.problem, f"{attempt.strip()}\n\nFeedback: {feedback.text}")
        # After a failure too: the others wait for this episode at this turn.
        finally:
            if group is not None:
                group.note_past(request.session_id, turn, remark)
        if remark is None:
            return feedback
        remarks = [remark] if group is None else await group.remarks(turn, self.wait_s)
        text = await _fitting(request, [each.text for each in remarks])
        # The notes are about the own attempt, and the text is about all.
        return replace(feedback, text=text, provider=self.name, notes=())


async def _fitting(request: FeedbackRequest, remarks: Sequence[str]) -> str:
    """The shortest remarks that question and prompt budget leave room for, at least one."""
    question = request.messages[-1]
    shown: list[str] = []
    for k, remark in enumerate(sorted(remarks, key=len), start=1):
        more = [*shown, f"Attempt {k}:\n{remark}"]
        content = f"{question['content']}\n\n{quoted(request.policy, _text(more))}"
        ids = await request.policy.encode(
            [*request.messages[:-1], {**question, "content": content}]
        )
        # The shortest attempt is shown even if it does not fit: the policy cuts what is too long.
        if shown and len(ids) > ROOM * request.policy.prompt_budget:
            break
        shown = more
    return _text(shown)


def _text(attempts: Sequence[str]) -> str:
    return "\n\n".join([INTRODUCTION, *attempts])
