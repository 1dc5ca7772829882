"""A judge model behind an OpenAI-compatible endpoint: a hosted API, vLLM, SGLang, llama.cpp …"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rltf_verl.feedback.base import FeedbackProvider, FeedbackRequest, FeedbackUnavailable, Subject
from rltf_verl.feedback.judge_prompt import STYLES, judge_messages
from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.parsing import Parsed, parse_reply
from rltf_verl.judge.wire import Call, JudgeUnavailable, Reply
from rltf_verl.registry import require_choice
from rltf_verl.types import Feedback, Message


class JudgeProvider(FeedbackProvider):
    """Feedback by a language model.

    Args:
        style: the judge's task, `prompts/judge/<style>.j2`.
        reference: show it the reference answer; None leaves it to the style.
        endpoint: `settings.Endpoint` as a block.
        limits: `settings.JudgeLimits` as a block, for the whole job.
        price: `settings.Price` as a block.
        cache_dir: folder of replies that are paid for.

    Raises:
        ValueError: a bad option; names the config key.
    """

    name = "judge"

    def __init__(
        self,
        style: str = "hint",
        reference: bool | None = None,
        endpoint: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
        price: Mapping[str, Any] | None = None,
        cache_dir: str | None = None,
    ) -> None:
        require_choice("rltf.feedback.style", style, STYLES)
        self.style = style
        self.constant = style == "verdict"  # one of two sentences: nothing to model
        self.subject: Subject = STYLES[style].subject
        self.sees_reference = STYLES[style].reference if reference is None else reference
        self._judge = Judge(
            {"endpoint": endpoint, "limits": limits, "price": price, "cache_dir": cache_dir},
            "rltf.feedback",
            words=0 if self.constant else STYLES[style].words,
        )
        self.judges = (self._judge,)
        self.settings = self._judge.settings

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The judge's words on the last of the turns.

        A reply without usable feedback costs a second call. Raises FeedbackUnavailable.
        """
        start = time.monotonic()
        messages = self.messages(request)
        # Another seed: with the same one the cache would give the same reply.
        for seed in (request.seed, request.seed + 1):
            reply, parsed = await self.ask(messages, seed)
            # The discarded reply's events count too.
            for event in parsed.noted:
                self._judge.note(event)
            if parsed.text:
                return Feedback(
                    parsed.text,
                    self.name,
                    self.sees_reference,
                    latency_s=time.monotonic() - start,
                    prompt_tokens=reply.prompt_tokens,
                    completion_tokens=reply.completion_tokens,
                    cached=reply.cached,
                )
        raise self.unusable(parsed)

    def messages(self, request: FeedbackRequest) -> tuple[Message, ...]:
        """Messages to the judge."""
        return judge_messages(self.style, request, with_reference=self.sees_reference)

    async def ask(self, messages: tuple[Message, ...], seed: int) -> tuple[Reply, Parsed]:
        """One reply, and what it holds. Raises FeedbackUnavailable."""
        try:
            reply = await self._judge.complete(Call(messages, seed))
        except JudgeUnavailable as error:
            raise FeedbackUnavailable(self.name, error.cause) from None
        style = STYLES[self.style]
        return reply, parse_reply(
            reply.text, marker=style.marker, words=style.words, complete=reply.complete
        )

    def unusable(self, parsed: Parsed) -> FeedbackUnavailable:
        """The failure that a reply without feedback is."""
        fix = "try it with `rltf feedback try`"
        if "cut_off" in parsed.noted:
            fix = "raise rltf.feedback.endpoint.max_tokens"
        return FeedbackUnavailable(
            self.name, f"no feedback in the judge's reply ({', '.join(parsed.noted)}); {fix}"
        )
