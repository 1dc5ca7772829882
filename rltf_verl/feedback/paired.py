"""The release's dual-critique set-up: of two episodes with the same first answer, one hears an
expert, one itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from rltf_verl.feedback.base import FeedbackRequest, Subject, subject_of, tells_answer_of
from rltf_verl.feedback.blocks import common_subject, provider_of_block
from rltf_verl.judge.gateway import judges_of
from rltf_verl.types import Feedback


class PairedProvider:
    """Even episodes ask one provider, odd ones another; use with `rltf.episode.pair_sessions=true`.

    Args:
        even: the even episodes' block, `{provider: …, its options}`.
        odd: the odd episodes' block.

    Raises:
        ValueError: a block without `provider`, or what the two providers raise.
    """

    name = "paired"

    def __init__(self, even: Mapping[str, Any], odd: Mapping[str, Any]) -> None:
        self.pair = (provider_of_block("even", even), provider_of_block("odd", odd))
        self.sees_reference = any(provider.sees_reference for provider in self.pair)
        self.tells_answer = any(map(tells_answer_of, self.pair))
        self.judges = tuple(chain.from_iterable(map(judges_of, self.pair)))
        self.subject: Subject | None = common_subject(map(subject_of, self.pair))
        self.constant = all(
            provider.constant for provider in self.pair if provider.name != "policy"
        )

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The feedback of this episode's provider, under that provider's name. Raises
        FeedbackUnavailable.
        """
        return await self.pair[request.session_id % 2].feedback(request)
