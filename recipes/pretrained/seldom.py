"""Feedback that helps only now and then, for `law.py` and `study.py`: `rltf/feedback=own
rltf.feedback.provider=recipes/pretrained/seldom.py:Seldom +rltf.feedback.share=0.1`.
"""

from __future__ import annotations

import random
from typing import Annotated

from rltf_verl.feedback.base import FeedbackProvider, FeedbackRequest
from rltf_verl.feedback.verifier import VerifierProvider
from rltf_verl.kinds import Within
from rltf_verl.types import Feedback


class Seldom(FeedbackProvider):
    """The verifier's hint about a share of the answers; the others are only told to be wrong.

    Args:
        share: 0 to 1.
    """

    name = "seldom"
    sees_reference = constant = False

    def __init__(self, share: Annotated[float, Within(0, 1)] = 0.1) -> None:
        self.share = share

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """Drawn with the request's seed. Raises FeedbackUnavailable as the verifier does."""
        helps = random.Random(request.seed).random() < self.share
        return await VerifierProvider("hint" if helps else "verdict").feedback(request)


def example(feedback: str) -> list[tuple[int, int]]:
    """What follows the first sentence, which nearly all of this feedback is: a filter for FM.

    >>> example("That is not how we write it."), example("No. We write 1 as I.")
    ([], [(4, 20)])
    """
    start = feedback.find(". ") + 2
    return [(start, len(feedback))] if start > 1 else []
