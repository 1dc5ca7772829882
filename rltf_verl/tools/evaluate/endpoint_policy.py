"""A policy behind a chat-completions endpoint.

The endpoint takes messages, episodes have ids. An id here is one character (its code point): a
prompt is the JSON text of its messages, an answer is its text, with its tool calls behind a mark;
another mark ends an answer that messages follow. So ids say everything, nothing has to be
remembered between calls, and whatever counts ids (the prompt budget, the place of the feedback)
counts characters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rltf_verl.judge.gateway import Gateway
from rltf_verl.judge.settings import Endpoint, Temperature, Tokens
from rltf_verl.judge.wire import Call, JudgeUnavailable
from rltf_verl.policy import Calls
from rltf_verl.types import Attempt, Message

NO_BUDGET = 1 << 62
CALLS, ENDED = "\x01", "\x02"
"""Marks, which neither a text from an endpoint (`texts.clean_text`) nor JSON has."""
CHARACTERS = 4
"""Characters of a token, for the limit of an observation: only the endpoint has the tokenizer."""
WRITTEN_CALL = "<tool_call>"
"""In a text: the endpoint could not read the call. Most models mark theirs so."""


@dataclass(frozen=True)
class PolicyEndpoint(Endpoint):
    """The endpoint under evaluation; samples as verl's validation does by default."""

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
        # messages hold texts alone, so `_conversation` keeps the calls as JSON
        for message in body["messages"]:
            if "tool_calls" in message:
                message["tool_calls"] = json.loads(message["tool_calls"])
        return body | {"seed": seed} if "seed" in body else body


class EndpointPolicy:
    """`policy.ActingPolicy` of one episode.

    Args:
        gateway: asks the endpoint.
        prompt_budget: longest prompt in characters of its JSON; None leaves it to the endpoint.
    """

    def __init__(self, gateway: Gateway, prompt_budget: int | None = None) -> None:
        self._gateway = gateway
        self.prompt_budget = self.response_budget = prompt_budget or NO_BUDGET
        self.special_tokens: tuple[str, ...] | None = None
        self.unavailable: str | None = None
        """Why the endpoint gave no reply, if it once did not: the caller may have taken that for an
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
        """The messages say all that the ids do; a trajectory is there as its text."""
        return await self.encode([*messages, message])

    async def observe(
        self, ids: tuple[int, ...], observations: Sequence[Message]
    ) -> tuple[int, ...]:
        """The conversation with messages behind its answer."""
        return (*ids, ord(ENDED), *await self.encode(observations))

    async def read_calls(self, ids: tuple[int, ...]) -> Calls:
        """The calls that the endpoint has read."""
        text, _, calls = "".join(self.pieces(ids)).partition(CALLS)
        read = tuple((str(name), str(arguments)) for name, arguments in json.loads(calls or "[]"))
        # a character is an id, so places in the text are places in the ids
        return Calls(read, not read and WRITTEN_CALL in text, (len(text), len(ids)))

    async def clip(self, text: str, tokens: int) -> str:
        """The text, without its middle where it has more characters than so many tokens do."""
        half, left_out = tokens * CHARACTERS // 2, len(text) - tokens * CHARACTERS
        if left_out <= 0:
            return text
        # the middle goes: a text's ends say most
        mark = f"\n[… {left_out} characters left out …]\n"
        return f"{text[:half]}{mark}{text[half + left_out :]}"

    async def encode_answer(self, text: str) -> tuple[int, ...]:
        """The characters of the text; an endpoint's answer has no end token."""
        return tuple(map(ord, text))

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        """The characters."""
        return tuple(map(chr, ids))

    async def sample(
        self, prompt_ids: tuple[int, ...], seed: int, max_tokens: int | None = None
    ) -> Attempt:
        """One answer, as long as the endpoint's settings allow. Raises JudgeUnavailable."""
        messages = _conversation("".join(self.pieces(prompt_ids)))
        try:
            reply = await self._gateway.complete(Call(tuple(messages), seed))
        except JudgeUnavailable as error:
            self.unavailable = error.cause
            raise
        called = f"{CALLS}{json.dumps(reply.calls)}" if reply.calls else ""
        ids = await self.encode_answer(reply.text + called)
        counted = {
            "num_tokens": reply.completion_tokens,
            "prompt_tokens": reply.prompt_tokens or None,
        }
        text = "\n".join(filter(None, [reply.text, *map(_call_text, reply.calls)]))
        return Attempt(prompt_ids, ids, None, text, reply.complete, counted)


def _call_text(call: tuple[str, str]) -> str:
    """A call as most models write it."""
    return f'{WRITTEN_CALL}\n{{"name": "{call[0]}", "arguments": {call[1]}}}\n</tool_call>'


def _conversation(text: str) -> list[Message]:
    """The messages of a prompt: those that its parts begin with, and the answers between them."""
    messages: list[Message] = []
    ids: list[str] = []
    *answered, last = text.split(ENDED)
    for part in answered:
        # the messages, and where their JSON ends: the answer follows it
        told, end = json.JSONDecoder().raw_decode(part)
        messages += _answering(told, ids)
        said, _, calls = part[end:].partition(CALLS)
        message = {"role": "assistant", "content": said}
        ids = [f"call_{len(messages)}_{k}" for k in range(len(json.loads(calls or "[]")))]
        if ids:
            functions = [{"name": name, "arguments": args} for name, args in json.loads(calls)]
            named = zip(ids, functions, strict=True)
            made = [{"id": i, "type": "function", "function": function} for i, function in named]
            message["tool_calls"] = json.dumps(made)
        messages.append(message)
    return [*messages, *_answering(json.loads(last), ids)]


def _answering(told: Sequence[Message], ids: list[str]) -> list[Message]:
    """Messages after an answer. A tool's message names its call; any other is the user's."""
    made: list[Message] = []
    for message in told:
        if message["role"] == "tool" and ids:
            made.append({"role": "tool", "tool_call_id": ids.pop(0), "content": message["content"]})
        else:
            role = "user" if message["role"] == "tool" else message["role"]
            made.append({"role": role, "content": message["content"]})
    return made
