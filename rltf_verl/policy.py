"""The interface of the sampler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rltf_verl.types import Attempt, Message


class Policy(Protocol):
    """Encodes conversations and samples answers. Ids in, ids out: a sampled token is never encoded
    again.
    """

    prompt_budget: int
    """Longest prompt in tokens."""
    special_tokens: tuple[str, ...] | None
    """Texts that its tokenizer reads as control tokens, which no quotation may hold; None:
    unknown.
    """

    async def encode(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Token ids of a conversation, with the header of the answer to come."""
        ...

    async def encode_unthinking(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Encode with the empty block that a thinking model's template has before an answer
        without thoughts.
        """
        ...

    async def extend(
        self, ids: tuple[int, ...], messages: Sequence[Message], message: Message
    ) -> tuple[int, ...]:
        """Token ids of a continued conversation: `ids`, then `message` and the header of the answer
        to come.

        Args:
            ids: the conversation so far, as it was sampled.
            messages: the same as messages, the last one the policy's.
            message: the next one.
        """
        ...

    async def encode_answer(self, text: str) -> tuple[int, ...]:
        """Token ids of `text` as if the policy had answered it: ended by its end token, cut off at
        its answer budget.

        Text that looks like a special token is encoded as its characters.
        """
        ...

    def pieces(self, ids: tuple[int, ...]) -> tuple[str, ...]:
        """The text that each token adds; together they are the decoded text."""
        ...

    async def sample(self, prompt_ids: tuple[int, ...], seed: int) -> Attempt:
        """Sample one answer."""
        ...


@dataclass(frozen=True, slots=True)
class Calls:
    """The tool calls in one answer."""

    calls: tuple[tuple[str, str], ...]
    """Tool and arguments as JSON text, in order."""
    malformed: bool = False
    """The answer has a call that could not be read."""
    span: tuple[int, int] = (0, 0)
    """[start, end) of the answer's tokens from the first call to the last."""


class ActingPolicy(Policy, Protocol):
    """A policy that plays trajectories: what it samples and observes makes one response. It knows
    the environment's tools, which each of its prompts has.
    """

    response_budget: int
    """Longest response in tokens, observations included."""

    async def read_calls(self, ids: tuple[int, ...]) -> Calls:
        """The tool calls in an answer, by the parser of the model's family."""
        ...

    async def observe(
        self, ids: tuple[int, ...], observations: Sequence[Message]
    ) -> tuple[int, ...]:
        """Token ids of a continued trajectory: `ids`, the observations and the header of the next
        answer. Its cost does not depend on the number of steps before.
        """
        ...

    async def clip(self, text: str, tokens: int) -> str:
        """The text, without its middle where it has more tokens; a mark counts those cut out."""
        ...

    async def sample(
        self, prompt_ids: tuple[int, ...], seed: int, max_tokens: int | None = None
    ) -> Attempt:
        """Sample one answer of at most `max_tokens` tokens."""
        ...


def _refuse(*_args: Any, **_kwargs: Any) -> Any:
    raise RuntimeError("this command has no policy: it can neither sample nor encode")


class NoPolicy:
    """The policy of commands that sample nothing: every method raises RuntimeError."""

    prompt_budget = 0
    special_tokens: tuple[str, ...] | None = None
    encode = encode_unthinking = extend = encode_answer = pieces = sample = _refuse
