"""Prompts that quote an attempt, cut so that they fit the prompt budget."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rltf_verl.policy import Policy
from rltf_verl.prompts import render
from rltf_verl.prompts.quote import quoted
from rltf_verl.types import Message

NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Fitted:
    """A rendered prompt."""

    ids: tuple[int, ...] | None
    """None when it does not fit even without the attempt."""
    text: str
    """Its last message."""
    shortened: bool
    """The quoted attempt had to be cut."""


async def fitted_prompt(
    policy: Policy,
    messages: Sequence[Message],
    template: str,
    *,
    attempt: str,
    fields: Mapping[str, str] = NOTHING,
    unthinking: bool = False,
) -> Fitted:
    """The conversation with its last message replaced by a rendered template.

    Attempt and fields are quoted as characters: none of them can be read as a special token
    (`quote.defused`).

    When it exceeds the budget the quoted attempt is cut from the front (its answer is at the end),
    never the question or a field.

    Args:
        policy: encodes, and knows the budget.
        messages: the first prompt; its last message is the question.
        template: as of `render`; takes question, attempt and the fields.
        attempt: the text that is quoted.
        fields: the template's other fields: `feedback`, and what else a teacher reads.
        unthinking: the answer to the prompt is known and has no thoughts
            (`Policy.encode_unthinking`).
    """
    attempt = quoted(policy, attempt)
    quotes = {name: quoted(policy, text) for name, text in fields.items()}
    encode = policy.encode_unthinking if unthinking else policy.encode

    async def quote(tail: str) -> Fitted:
        text = render(template, question=messages[-1]["content"], attempt=tail, **quotes)
        ids = await encode([*messages[:-1], {**messages[-1], "content": text}])
        return Fitted(
            ids if len(ids) <= policy.prompt_budget else None, text, shortened=tail != attempt
        )

    return await _longest_tail(quote, attempt)


async def _longest_tail(quote: Callable[[str], Awaitable[Fitted]], attempt: str) -> Fitted:
    whole = await quote(attempt)
    if whole.ids is not None:
        return whole
    # A prompt grows with what it quotes, so bisection finds the longest tail that fits.
    longest, low, high = whole, 0, len(attempt) - 1
    while low <= high:
        keep = (low + high) // 2
        fitted = await quote("…" + attempt[len(attempt) - keep :])
        if fitted.ids is not None:
            longest, low = fitted, keep + 1
        else:
            high = keep - 1
    return longest
