"""Episodes in this process: `policy.Policy` on the project's batched CPU generator, all episodes in
one batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import count
from typing import TypeVar

from transformers import PreTrainedTokenizerBase

from rltf_verl.adapters.cpu.rollout.generation import BatchGenerator, Request, Result
from rltf_verl.adapters.cpu.rollout.sampling import SamplingParams
from rltf_verl.types import Attempt, Message

T = TypeVar("T")


class LocalPolicy:
    """What `adapters.rollout.agent_loop.VerlPolicy` is to verl's rollout server, without the
    server.
    """

    def __init__(
        self,
        generator: BatchGenerator,
        tokenizer: PreTrainedTokenizerBase,
        prompt_budget: int,
        response_budget: int,
    ) -> None:
        self.prompt_budget, self._response_budget = prompt_budget, response_budget
        self._generator, self._tokenizer = generator, tokenizer
        self._futures: dict[str, asyncio.Future[Result]] = {}
        self._names = count()

    async def encode(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids of a conversation, with the header of the answer to come."""
        ids = self._tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, return_dict=False
        )
        return tuple(ids)

    async def encode_unthinking(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The policy does not think."""
        return await self.encode(messages)

    async def extend(
        self, ids: tuple[int, ...], messages: Sequence[Message], message: Message
    ) -> tuple[int, ...]:
        """Appended contexts are not studied."""
        raise NotImplementedError

    async def encode_answer(self, text: str) -> tuple[int, ...]:
        """Plain text as an answer, ended by the end token, cut off at the answer budget."""
        ids = self._tokenizer(text, add_special_tokens=False, split_special_tokens=True)[
            "input_ids"
        ]
        return tuple([*ids, self._tokenizer.eos_token_id][: self._response_budget])

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        """One character or more per token, none of them split over tokens."""
        return tuple(self._tokenizer.decode([i], skip_special_tokens=True) for i in ids)

    async def sample(self, prompt_ids: tuple[int, ...], seed: int) -> Attempt:
        """One answer, with its log-probs."""
        name = str(next(self._names))
        self._futures[name] = asyncio.get_running_loop().create_future()
        self._generator.add(
            Request(name, prompt_ids, SamplingParams(self._response_budget, seed=seed))
        )
        result = await self._futures[name]
        ids = tuple(result.token_ids)
        text = self._tokenizer.decode(ids, skip_special_tokens=True)
        ended = ids[-1] == self._tokenizer.eos_token_id
        return Attempt(prompt_ids, ids, tuple(result.log_probs), text, ended)

    def gather(self, episodes: Sequence[Coroutine[None, None, T]]) -> list[T]:
        """Run coroutines that sample from this policy to their end, side by side."""
        return asyncio.run(self._gather(episodes))

    async def _gather(self, episodes: Sequence[Coroutine[None, None, T]]) -> list[T]:
        everything = asyncio.gather(*episodes)
        while not everything.done():
            for _ in range(HOPS):
                await asyncio.sleep(0)
            for result in self._generator.step():
                self._futures.pop(result.request_id).set_result(result)
        return await everything


HOPS = 8
"""Turns of the event loop between tokens, enough for an episode to get from one answer to its next
question.
"""
