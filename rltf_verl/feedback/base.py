"""The interface of feedback providers, and the error of one that has no feedback."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rltf_verl.envs.base import Env
from rltf_verl.envs.calls import is_cancelled
from rltf_verl.feedback.group import Group
from rltf_verl.judge.gateway import Judge, judges_of
from rltf_verl.policy import Policy
from rltf_verl.redaction import secrets_here
from rltf_verl.registry import UserCodeError, raised_by
from rltf_verl.texts import one_line
from rltf_verl.types import Feedback, Message, Problem, Turn

LONGEST_CAUSE = 1000


class FeedbackUnavailable(UserCodeError):
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


class NoWords(FeedbackUnavailable):
    """The provider works, and has nothing to say about this attempt."""


@dataclass(frozen=True)
class FeedbackRequest:
    """Inputs of a provider."""

    env: Env
    problem: Problem
    messages: Sequence[Message]
    """The first prompt; its last message is the question."""
    turns: Sequence[Turn]
    """The attempts so far, at least one; the feedback is about the last."""
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
    """Part of an attempt that a critic reads (`rltf.episode.quote`); the attempt is whole."""


Subject = Literal["attempt", "question", "answer", "group"]
"""Subject of feedback: the attempt (it cannot be understood without it), the question (a guide
for a fresh start), the answer, which it states, or the group's attempts, which it quotes."""


class FeedbackProvider:
    """Turns an attempt into text feedback: extend this class. One instance per process, shared by
    all its episodes. `name`, `sees_reference`, `constant` and `feedback` have no defaults.

        class WordLimit(FeedbackProvider):
            name = "word_limit"
            sees_reference = constant = False

            def __init__(self, limit: int = 10) -> None:
                self.limit = limit

            async def feedback(self, request):
                words = len(request.turns[-1].attempt.text.split())
                return Feedback(f"{words} words; use at most {self.limit}.", self.name)
    """

    __slots__ = ()

    name: str
    sees_reference: bool
    """It is shown the reference answer, so what it writes can leak it."""
    constant: bool
    """Its text is always the same sentence, so there is nothing to model."""
    subject: Subject | None = None
    """Subject of its feedback; None is the attempt, whether or not the next prompt shows it."""
    tells_answer: bool = False
    """It states the answer on purpose, always or at some turn."""
    judges: tuple[Judge, ...] = ()
    """The models that it asks; they share the job's limits and metrics."""
    self_written: bool = False
    """The policy writes the text, and `Feedback.attempt` holds its tokens, which are critique
    rows."""
    waits_for_others: bool = False
    """An episode waits until the group's others are at the same turn."""
    quotes_other_problems: bool = False
    """It needs episodes of other problems in the same process."""

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """Feedback on the last of the request's turns. Raises FeedbackUnavailable."""
        raise NotImplementedError(f"{type(self).__name__} has no method `feedback`")


class WrappedProvider(FeedbackProvider):
    """A provider that passes on what another one says, and is described as that one is."""

    def __init__(self, inner: FeedbackProvider) -> None:
        self.inner, self.name, self.judges = inner, inner.name, judges_of(inner)
        self.sees_reference, self.constant = inner.sees_reference, inner.constant
        self.subject, self.self_written = inner.subject, inner.self_written


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
    except (Exception, SystemExit, asyncio.CancelledError) as error:
        # A task of the provider may be cancelled without the episode: that is a failure like
        # others.
        if isinstance(error, asyncio.CancelledError) and is_cancelled():
            raise
        failure = unavailable_because(provider.name, "", error, type(provider))
    raise failure


def unavailable_because(
    provider: str, what: str, error: BaseException, own: type
) -> FeedbackUnavailable:
    """No feedback because of an exception, which is kept as the cause unless its traceback would
    tell a secret.

    To be raised outside of the `except` block, where Python would add the exception as its context.

    Args:
        provider: the provider's name.
        what: what failed, as the beginning of a sentence; may be empty.
        error: what was raised.
        own: the class whose file and line are named.
    """
    failure = FeedbackUnavailable(provider, f"{what}{raised_by(own, error)}")
    if not secrets_here().found_in("".join(traceback.format_exception(error))):
        failure.__cause__ = error
    return failure


def _without_secrets(feedback: Feedback) -> Feedback:
    text = secrets_here().clean(feedback.text)
    # The tokens of a critique would be those of the words that are gone.
    return (
        feedback if text == feedback.text else replace(feedback, text=text, attempt=None, notes=())
    )
