"""An additional look at feedback in which the rules find no leak: a language model reads it beside
the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable
from rltf_verl.feedback.judge_prompt import as_text
from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.wire import JudgeUnavailable

BLOCK = "rltf.feedback.guard.judge"
TEMPLATE = "guard/leak"


class JudgedLeak:
    """Asks a model whether a text gives the answer away.

    Args:
        options: `endpoint`, `limits`, `price`, `cache_dir`, as of the provider `judge`.

    Raises:
        ValueError: a bad option; names the config key.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.judge = Judge(options, BLOCK)
        self.judges = (self.judge,)

    async def __call__(self, request: FeedbackRequest, text: str) -> bool:
        """True if the model reports a leak.

        Raises:
            FeedbackUnavailable: after two failed verdicts; the text is withheld.
        """
        try:
            return await self.judge.says_yes(TEMPLATE, leak_texts(request, text), request.seed)
        except JudgeUnavailable as error:
            raise FeedbackUnavailable("guard", error.cause) from None


def leak_texts(request: FeedbackRequest, text: str) -> dict[str, str]:
    """Texts for the model."""
    return {
        "question": as_text(request.messages),
        "reference": request.problem.reference,
        "text": text,
    }
