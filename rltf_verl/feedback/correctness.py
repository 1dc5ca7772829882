"""Only whether the answer was right: the paper's weakest feedback, and what others fall back to."""

from __future__ import annotations

from rltf_verl.feedback.base import FeedbackRequest, Subject
from rltf_verl.types import Feedback

CORRECT = "Your previous attempt was correct."
INCORRECT = "Your previous attempt was incorrect."


class CorrectnessProvider:
    """The verdict as one sentence, in the release's words.

    A correct attempt gets the other sentence. It is only asked about when episodes go on after a
    correct answer.
    """

    name = "correctness"
    sees_reference = False
    constant = True
    subject: Subject = "attempt"

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The verdict on the last of the turns."""
        return Feedback(CORRECT if request.turns[-1].grade.correct else INCORRECT, self.name)
