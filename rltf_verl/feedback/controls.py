"""The control for what the content of feedback is worth: a real provider's words, about another
problem.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from rltf_verl.feedback import has_trait, provider_of_block
from rltf_verl.feedback.base import (
    FeedbackRequest,
    FeedbackUnavailable,
    WrappedProvider,
    ask,
)
from rltf_verl.feedback.group import WAIT_S, Remark
from rltf_verl.feedback.sentences import CORRECT
from rltf_verl.types import Feedback


class ShuffledProvider(WrappedProvider):
    """Asks the inner provider as usual, and returns its feedback on another problem at the same
    turn: right in form and length, and about something else.

    Other problems are those that this process plays at the same time. A correct attempt gets a text
    that says so, and the inner provider's failures stay failures, so that a run differs from the
    inner provider's in content alone.

    Args:
        inner: block `{provider: …, its options}`.

    Raises:
        ValueError: a value that cannot be, or what the inner provider raises.
    """

    waits_for_others = quotes_other_problems = True
    wait_s = WAIT_S

    def __init__(self, inner: Mapping[str, Any]) -> None:
        super().__init__(provider_of_block("inner", inner))
        # Records and metrics must not take it for the inner one.
        self.name = "shuffled"
        if has_trait("self_written", inner) or has_trait("quotes_other_problems", inner):
            raise ValueError(
                f"rltf.feedback.inner.provider={inner['provider']}: critiques that the policy"
                " writes are trained on, and a control of a control says nothing; choose verifier,"
                " judge, …"
            )

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """A text about another problem. Raises FeedbackUnavailable, also if no other problem
        has feedback.
        """
        turn, group = len(request.turns) - 1, request.group
        if group is None or group.cohort is None:
            raise FeedbackUnavailable(
                self.name,
                "this problem is played alone; the control works in training, its validations and"
                " rltf eval",
            )
        # It has nothing to add, but the others wait for it.
        if request.turns[-1].grade.correct:
            group.note_past(request.session_id, turn)
            return Feedback(CORRECT, self.name)
        remark = None
        try:
            feedback = await ask(self.inner, request)
            remark = Remark(request.problem, feedback.text)
        finally:
            group.note_past(request.session_id, turn, remark)
        remarks = await group.cohort.remarks(turn, self.wait_s)
        # A batch may hold the same problem twice.
        others = [remark for remark in remarks if remark.problem != request.problem]
        if not others:
            raise FeedbackUnavailable(
                self.name,
                "no feedback on another problem that this process plays at the same time;"
                " raise data.train_batch_size or lower actor_rollout_ref.rollout.agent.num_workers",
            )
        text = random.Random(request.seed).choice(others).text
        return Feedback(
            text, self.name, sees_reference=feedback.sees_reference or self.sees_reference
        )
