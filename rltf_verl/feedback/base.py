"""The interface of feedback providers, and the error of one that has no feedback."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from rltf_verl.envs.base import Env
from rltf_verl.envs.waiting import is_cancelled
from rltf_verl.feedback.group import Group
from rltf_verl.policy import Policy
from rltf_verl.redaction import secrets_here
from rltf_verl.registry import described
from rltf_verl.texts import one_line
from rltf_verl.types import Feedback, Message, Problem, Turn

LONGEST_CAUSE = 1000


class FeedbackUnavailable(Exception):
    """No feedback could be had for this attempt. Never scored against the policy;
    `rltf.feedback.on_error` decides.

    Args:
        provider: the provider's name.
        cause: what failed and what to change; becomes one clean line of at most `LONGEST_CAUSE`
            characters.
        withheld: the feedback, if the leak guard dropped it.
    """

    def __init__(self, provider: str, cause: str, withheld: Feedback | None = None) -> None:
        self.provider = one_line(str(provider), 80)
        self.cause = secrets_here().quote(str(cause), LONGEST_CAUSE)
        super().__init__(f"{self.provider}: {self.cause}")
        self.withheld = withheld

    def __reduce__(self) -> tuple[type[FeedbackUnavailable], tuple[str, str, Feedback | None]]:
        """Travels between processes: `on_error: raise` carries it from a Ray worker to the
        driver.
        """
        return (type(self), (self.provider, self.cause, self.withheld))


@dataclass(frozen=True)
class FeedbackRequest:
    """What a provider may look at."""

    env: Env
    problem: Problem
    messages: Sequence[Message]
    """The first prompt; its last message is the question."""
    turns: Sequence[Turn]
    """The attempts so far, at least one; feedback is asked for on the last."""
    session_id: int
    policy: Policy
    """The sampler, for feedback that the policy itself writes."""
    seed: int
    """For all randomness of the provider."""
    group: Group | None = None
    """The other episodes of this problem, for providers that show one what another found; None if
    it plays alone.
    """
    quote: Literal["answer", "all", "none"] = "answer"
    """What a critic is shown of an attempt (`rltf.episode.quote`); the attempt itself is whole."""


Subject = Literal["attempt", "question", "answer", "group"]
"""What feedback is about: the attempt (it cannot be understood without it), the question (a guide
for a fresh start), the answer, which it states, or the group's attempts, which it quotes."""


class FeedbackProvider(Protocol):
    """Turns an attempt into text feedback. One instance per process, shared by all its episodes.

    More attributes are optional: `subject` (`subject_of`), `tells_answer` (`tells_answer_of`),
    `judges` (`judge.gateway.judges_of`), and three flags of the class:

    * `self_written`: the policy writes the text, and `Feedback.attempt` holds its tokens, which are
      critique rows.
    * `waits_for_others`: an episode waits until the group's others are at the same turn.
    * `quotes_other_problems`: it needs episodes of other problems in the same process.
    """

    name: str
    sees_reference: bool
    """It is shown the reference answer, so what it writes can leak it."""
    constant: bool
    """Its text is always the same sentence, so there is nothing to model."""

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """Feedback on the last of the request's turns. Raises FeedbackUnavailable."""
        ...


def subject_of(provider: FeedbackProvider) -> Subject | None:
    """What the provider's feedback is about, also inside a guard or a record; None if it does not
    declare one.
    """
    subject: Subject | None = getattr(innermost(provider), "subject", None)
    return subject


def innermost(provider: FeedbackProvider) -> FeedbackProvider:
    """The provider that writes the text, inside a guard, a record or a control."""
    while hasattr(provider, "inner"):
        provider = provider.inner
    return provider


def tells_answer_of(provider: FeedbackProvider) -> bool:
    """Whether the provider states the answer on purpose, always or at some turn; False if it does
    not say.
    """
    return bool(getattr(provider, "tells_answer", False))


async def ask(provider: FeedbackProvider, request: FeedbackRequest) -> Feedback:
    """`provider.feedback`, without secrets, and with whatever it raises as FeedbackUnavailable.

    A provider is user code; how it fails must not decide what happens to the episode.
    """
    try:
        feedback = await provider.feedback(request)
        if isinstance(feedback, Feedback):
            return _without_secrets(feedback)
        failure = FeedbackUnavailable(
            provider.name, f"it returned {type(feedback).__name__}, not a Feedback"
        )
    except FeedbackUnavailable:
        raise
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        failure = because(provider.name, "", error)
    except (Exception, SystemExit) as error:
        failure = because(provider.name, "", error)
    raise failure


def because(provider: str, what: str, error: BaseException) -> FeedbackUnavailable:
    """No feedback because of an exception, which is kept as the cause unless its traceback would
    tell a secret.

    To be raised outside of the `except` block, where Python would add the exception as its context.

    Args:
        provider: the provider's name.
        what: what failed, as the beginning of a sentence; may be empty.
        error: what was raised.
    """
    failure = FeedbackUnavailable(provider, f"{what}{described(error)}")
    if not secrets_here().found_in("".join(traceback.format_exception(error))):
        failure.__cause__ = error
    return failure


def _without_secrets(feedback: Feedback) -> Feedback:
    text = secrets_here().clean(feedback.text)
    # The tokens of a critique would be those of the words that are gone.
    return (
        feedback if text == feedback.text else replace(feedback, text=text, attempt=None, notes=())
    )
