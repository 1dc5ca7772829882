"""A provider behind the leak guard."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rltf_verl.envs.calls import DEADLINE_S, call_env
from rltf_verl.feedback.base import (
    FeedbackProvider,
    FeedbackRequest,
    FeedbackUnavailable,
    WrappedProvider,
    ask,
)
from rltf_verl.feedback.guard.find import Leak, find_leaks
from rltf_verl.feedback.judge_prompt import as_text
from rltf_verl.judge.gateway import Judge, judges_of
from rltf_verl.judge.wire import JudgeUnavailable
from rltf_verl.texts import seed_from
from rltf_verl.types import Feedback

logger = logging.getLogger(__name__)

BLOCK = "rltf.feedback.guard.judge"
TEMPLATE = "guard/leak"
REGENERATIONS = 2
GAP = "[…]"
"""Text in place of a redacted passage."""

LeakCheck = Callable[[FeedbackRequest, str], Awaitable[bool]]
"""An additional check, e.g. by a language model (with `judges`): does this text
give the answer away?
"""


class GuardedProvider(WrappedProvider):
    """Looks at what another provider says before the policy does.

    Only attempts that are wrong have something to give away, and only a provider that sees the
    reference; critiques that the policy wrote itself are its own knowledge.

    Args:
        inner: the provider.
        action: `drop` (no feedback), `redact` (cut the passages out; drop what still leaks),
            `regenerate` (ask again, `REGENERATIONS` times, drop if it is no better), `warn` (let
            it pass, count it).
        also: an additional check of texts in which the rules find nothing.
    """

    def __init__(
        self,
        inner: FeedbackProvider,
        action: str = "drop",
        *,
        also: LeakCheck | None = None,
    ) -> None:
        super().__init__(inner)
        self._action, self._also = action, also
        self.judges += judges_of(also)
        self._warned = False

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The inner provider's feedback, with a verdict. Raises FeedbackUnavailable, also for what
        is dropped.
        """
        feedback = await ask(self.inner, request)
        if not self._must_look(request, feedback):
            return feedback
        leaks = await self._leaks(request, feedback.text)
        if not leaks:
            return replace(feedback, leak="")
        first = replace(feedback, leak=leaks[0].verdict(feedback.text))
        if self._action == "warn":
            return self._warned_of(first)
        if self._action == "redact":
            return await self._redact(request, first, leaks)
        for k in range(REGENERATIONS if self._action == "regenerate" else 0):
            feedback = await self._again(request, first, k)
            if not await self._leaks(request, feedback.text):
                return replace(feedback, leak=first.leak, original=first.text)
        raise self._refusal(first)

    def _must_look(self, request: FeedbackRequest, feedback: Feedback) -> bool:
        seen = self.sees_reference or feedback.sees_reference
        return not request.turns[-1].grade.correct and seen and feedback.attempt is None

    async def _leaks(self, request: FeedbackRequest, text: str) -> list[Leak]:
        env, attempt = request.env, request.turns[-1].attempt.text
        leaks = await call_env(DEADLINE_S, find_leaks, env, request.problem, text, attempt)
        # The model comes last: it costs a call.
        if not leaks and self._also is not None and await self._also(request, text):
            leaks = [Leak("judged", 0, len(text))]
        return leaks

    async def _again(self, request: FeedbackRequest, first: Feedback, k: int) -> Feedback:
        try:
            return await ask(
                self.inner, replace(request, seed=seed_from(f"{request.seed}/again/{k}"))
            )
        except FeedbackUnavailable as error:
            raise FeedbackUnavailable(error.provider, error.cause, withheld=first) from error

    async def _redact(
        self, request: FeedbackRequest, feedback: Feedback, leaks: Sequence[Leak]
    ) -> Feedback:
        cut = redacted(feedback.text, leaks)
        if not any(c.isalnum() for c in cut) or await self._leaks(request, cut):
            raise self._refusal(feedback)
        return replace(feedback, text=cut, original=feedback.text, notes=())

    def _refusal(self, feedback: Feedback) -> FeedbackUnavailable:
        why = f"the leak guard dropped it ({feedback.leak})"
        cause = f"{why}; rltf.feedback.guard.action={self._action}"
        return FeedbackUnavailable(feedback.provider, cause, withheld=feedback)

    def _warned_of(self, feedback: Feedback) -> Feedback:
        if not self._warned:
            self._warned = True
            logger.warning(
                "feedback of %s gives the answer away (%s); later ones are only counted,"
                " rltf/feedback/leak_share",
                feedback.provider,
                feedback.leak,
            )
        return feedback


def redacted(text: str, leaks: Sequence[Leak]) -> str:
    """`text` with a mark in place of every leaking passage; passages that overlap share one."""
    out, at = [], 0
    for leak in sorted(leaks, key=lambda leak: leak.start):
        if leak.start >= at:
            out += [text[at : leak.start], GAP]
        at = max(at, leak.end)
    return "".join([*out, text[at:]])


class JudgedLeak:
    """Asks a model whether a text in which the rules find no leak gives the answer away.

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
