"""Only whether the answer was right: the paper's weakest feedback, and what others fall back to."""

from __future__ import annotations

from collections.abc import Sequence

from rltf_verl.envs.base import Env
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.types import Feedback, Problem, Turn

CORRECT = "Your previous attempt was correct."
INCORRECT = "Your previous attempt was incorrect."


class CorrectnessProvider:
    """The verdict as one sentence, in the release's words.

    A correct attempt gets the other sentence. It is only asked about when sessions go on after a correct answer.
    """

    name = "correctness"
    sees_reference = False
    constant = True

    async def feedback(self, env: Env, problem: Problem, turns: Sequence[Turn]) -> Feedback:
        """The verdict on the last of `turns`. Raises FeedbackUnavailable if there is none."""
        if not turns:
            raise FeedbackUnavailable(self.name, "there is no attempt to speak about")
        return Feedback(CORRECT if turns[-1].grade.correct else INCORRECT, self.name)
