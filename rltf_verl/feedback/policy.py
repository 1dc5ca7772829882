"""Self-critique: the policy criticises its own attempt, without the reference answer (as the
release does).
"""

from __future__ import annotations

from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable, Subject
from rltf_verl.prompts import require_template, template_of
from rltf_verl.prompts.fit import fitted_prompt
from rltf_verl.prompts.quote import shown_of
from rltf_verl.texts import without_thoughts
from rltf_verl.types import Feedback

MARKER = "Critique:"


class PolicyProvider:
    """Samples the critique from the rollout engine that is already there; its tokens become a
    `critique` row.

    Args:
        critic: template `prompts/critic/<name>.j2`, or a file. Feedback modelling trains the policy
            on the same one, so what it learns there is what is asked for here.

    Raises:
        ValueError: unknown template.
    """

    name = "policy"
    sees_reference = False
    constant = False
    subject: Subject = "attempt"

    def __init__(self, critic: str = "critique") -> None:
        require_template("rltf.feedback.critic", "critic", critic)
        self.critic = critic

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The policy's own critique, as far as it got, without its thoughts.

        Raises:
            FeedbackUnavailable: its prompt does not fit, or it says nothing.
        """
        attempt = shown_of(request.turns[-1].attempt.text, request.quote)
        template = template_of("critic", self.critic)
        prompt = await fitted_prompt(request.policy, request.messages, template, attempt=attempt)
        if prompt.ids is None:
            raise FeedbackUnavailable(
                self.name, "the critic prompt does not fit; raise data.max_prompt_length"
            )
        critique = await request.policy.sample(prompt.ids, request.seed)
        said = without_thoughts(critique.text) if request.quote == "answer" else critique.text
        text = said.rpartition(MARKER)[2].strip()
        if not text:
            raise FeedbackUnavailable(self.name, "the policy's critique is empty")
        return Feedback(text, self.name, attempt=critique)
