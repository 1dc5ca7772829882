"""Fixed sentences: the weakest feedback of the paper, and the UFO baseline."""

from __future__ import annotations

from rltf_verl.feedback.base import FeedbackProvider, FeedbackRequest, Subject
from rltf_verl.kinds import Prose
from rltf_verl.types import Feedback

CORRECT = "Your previous attempt was correct."
INCORRECT = "Your previous attempt was incorrect."


class CorrectnessProvider(FeedbackProvider):
    """The verdict as one sentence, in the release's words; other providers fall back to it."""

    name = "correctness"
    sees_reference = False
    constant = True
    subject: Subject = "attempt"
    text = INCORRECT

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The verdict on the last of the turns."""
        return Feedback(CORRECT if request.turns[-1].grade.correct else self.text, self.name)


class TryAgainProvider(CorrectnessProvider):
    """One sentence for every wrong attempt: what feedback without content is worth.

    Args:
        text: the sentence.
    """

    name = "try_again"

    def __init__(self, text: Prose = "Let's try again.") -> None:
        self.text = text
