"""A policy behind a chat-completions endpoint.

The endpoint takes messages, episodes have ids. An id here is one character (its code point): a
prompt is the JSON text of its messages, an answer is its text. So ids say everything, nothing has
to be remembered between calls, and whatever counts ids (the prompt budget, the place of the
feedback) counts characters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rltf_verl.judge.gateway import Gateway
from rltf_verl.judge.settings import Endpoint, Temperature, Tokens
from rltf_verl.judge.wire import Call, JudgeUnavailable
from rltf_verl.types import Attempt, Message

NO_BUDGET = 1 << 62


@dataclass(frozen=True)
class PolicyEndpoint(Endpoint):
    """What is evaluated; samples as verl's validation does by default."""

    may_say_nothing: ClassVar[bool] = True
    whose: ClassVar[str] = "policy"

    temperature: Temperature | None = 1.0
    """null leaves it to the endpoint; 0 gives all episodes of a problem one answer."""
    max_tokens: Tokens | None = 2048
    """Longest answer in tokens, `data.max_response_length` of a training run; null leaves it to the
    endpoint.
    """

    def body(self, messages: list[dict[str, str]], seed: int) -> dict[str, Any]:
        """The request body, with the seed that the trainer's own rollout engine would get, all 63
        bits of it.
        """
        body = super().body(messages, seed)
        return body | {"seed": seed} if "seed" in body else body


class EndpointPolicy:
    """`policy.Policy` of one episode.

    Args:
        gateway: asks the endpoint.
        prompt_budget: longest prompt in characters of its JSON; None leaves it to the endpoint.
    """

    def __init__(self, gateway: Gateway, prompt_budget: int | None = None) -> None:
        self._gateway = gateway
        self.prompt_budget = prompt_budget or NO_BUDGET
        self.special_tokens: tuple[str, ...] | None = None
        self.unavailable: str | None = None
        """Why the endpoint gave no reply, if it once did not: who asked may have taken that for an
        answer.
        """

    async def encode(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The characters of the messages' JSON."""
        return tuple(map(ord, json.dumps(list(messages), ensure_ascii=False)))

    async def encode_unthinking(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The endpoint's template is its own."""
        return await self.encode(messages)

    async def extend(
        self, ids: tuple[int, ...], messages: Sequence[Message], message: Message
    ) -> tuple[int, ...]:
        """The messages say all that the ids do."""
        return await self.encode([*messages, message])

    async def encode_answer(self, text: str) -> tuple[int, ...]:
        """The characters of the text; an endpoint's answer has no end token."""
        return tuple(map(ord, text))

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        """The characters."""
        return tuple(map(chr, ids))

    async def sample(self, prompt_ids: tuple[int, ...], seed: int) -> Attempt:
        """One answer. Raises JudgeUnavailable."""
        messages = tuple(json.loads("".join(self.pieces(prompt_ids))))
        try:
            reply = await self._gateway.complete(Call(messages, seed))
        except JudgeUnavailable as error:
            self.unavailable = error.cause
            raise
        ids = await self.encode_answer(reply.text)
        counted = {
            "num_tokens": reply.completion_tokens,
            "prompt_tokens": reply.prompt_tokens or None,
        }
        return Attempt(prompt_ids, ids, None, reply.text, reply.complete, counted)
