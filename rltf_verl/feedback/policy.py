"""Self-critique: the policy criticises its own attempt, without the reference answer (as the
release does).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rltf_verl.feedback import provider_of_block
from rltf_verl.feedback.base import (
    FeedbackProvider,
    FeedbackRequest,
    FeedbackUnavailable,
    Subject,
    ask,
)
from rltf_verl.prompts import require_template, template_of
from rltf_verl.prompts.fit import fitted_prompt
from rltf_verl.prompts.quote import shown_of
from rltf_verl.texts import without_thoughts
from rltf_verl.types import Feedback

MARKER = "Critique:"


class PolicyProvider(FeedbackProvider):
    """Samples the critique from the rollout engine that is already there; its tokens become a
    `critique` row.

    Args:
        critic: template `prompts/critic/<name>.j2`, or a file. Feedback modelling trains the policy
            on the same one, so it learns there what it does here.

    Raises:
        ValueError: unknown template.
    """

    name = "policy"
    sees_reference = False
    constant = False
    subject: Subject = "attempt"
    self_written = True

    def __init__(self, critic: str = "critique") -> None:
        require_template("rltf.feedback.critic", "critic", critic)
        self.critic = critic

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The policy's own critique, as far as it got, without its thoughts.

        Raises:
            FeedbackUnavailable: its prompt does not fit, or the critique is empty.
        """
        attempt = shown_of(request.turns[-1].attempt.text, request.quote)
        template = template_of("critic", self.critic)
        prompt = await fitted_prompt(request.policy, request.messages, template, attempt=attempt)
        if prompt.ids is None:
            raise FeedbackUnavailable(
                self.name, "the critic prompt does not fit; raise data.max_prompt_length"
            )
        # The whole sampled answer is the row, whatever part of it is shown.
        critique = await request.policy.sample(prompt.ids, request.seed)
        answer = without_thoughts(critique.text) if request.quote == "answer" else critique.text
        # Without a marker all of the answer is the critique.
        text = answer.rpartition(MARKER)[2].strip()
        if not text:
            raise FeedbackUnavailable(self.name, "the policy's critique is empty")
        return Feedback(text, self.name, attempt=critique)


class PairedProvider(FeedbackProvider):
    """The release's dual critique: of two episodes with the same first answer, one reads an
    expert's feedback, the other its own. Use it with `rltf.episode.pair_sessions=true`.

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
        self.tells_answer = any(provider.tells_answer for provider in self.pair)
        self.judges = self.pair[0].judges + self.pair[1].judges
        self.subject = _common_subject(provider.subject for provider in self.pair)
        self.constant = all(
            provider.constant for provider in self.pair if not provider.self_written
        )

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The feedback of this episode's provider, under that provider's name. Raises
        FeedbackUnavailable.
        """
        return await ask(self.pair[request.session_id % 2], request)


def _common_subject(subjects: Iterable[Subject | None]) -> Subject | None:
    """The subject of several providers: the attempt if one of them has it, else the one that all
    have.

    >>> _common_subject(["answer", "attempt"])
    'attempt'
    """
    different = set(subjects)
    if "attempt" in different:
        return "attempt"
    return different.pop() if len(different) == 1 else None
