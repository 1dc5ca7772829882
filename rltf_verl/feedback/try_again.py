"""One sentence for every wrong answer: what feedback is worth when it says nothing at all (the UFO
baseline).
"""

from __future__ import annotations

from rltf_verl.feedback.base import FeedbackRequest, Subject
from rltf_verl.feedback.correctness import CORRECT
from rltf_verl.kinds import Prose
from rltf_verl.types import Feedback


class TryAgainProvider:
    """A fixed sentence. A correct attempt, where episodes go on after one, is told that it was
    correct.

    Args:
        text: the sentence.

    Raises:
        ValueError: there is none.
    """

    name = "try_again"
    sees_reference = False
    constant = True
    subject: Subject = "attempt"

    def __init__(self, text: Prose = "Let's try again.") -> None:
        self.text = text

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The sentence."""
        return Feedback(CORRECT if request.turns[-1].grade.correct else self.text, self.name)
