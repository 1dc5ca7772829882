"""From feedback to the prompt of the next attempt, in both forms of context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rltf_verl.config import EpisodeConfig
from rltf_verl.policy import Policy
from rltf_verl.prompts import render, template_of
from rltf_verl.prompts.fit import fitted_prompt
from rltf_verl.prompts.quote import quoted, shown_of
from rltf_verl.types import Feedback, Message, Turn


@dataclass(frozen=True)
class Revision:
    """The prompt of the next attempt."""

    ids: tuple[int, ...] | None
    """None when it does not fit the prompt budget."""
    messages: tuple[Message, ...]
    """The conversation that it belongs to; grows only in an appended context."""
    text: str
    """Its last message."""
    shortened: bool = False
    """The quoted attempt had to be cut."""
    span: tuple[int, int] | None = None
    """Place of the feedback's tokens in `ids`; appended context only."""


async def revise(
    policy: Policy,
    config: EpisodeConfig,
    conversation: Sequence[Message],
    question: Sequence[Message],
    turn: Turn,
    feedback: Feedback,
) -> Revision:
    """The prompt that quotes question, attempt and feedback, or the conversation with the feedback
    appended.

    Args:
        policy: encodes, and knows the budget.
        config: form of context, and a named template (`templates.with_template`).
        conversation: what `turn` was an answer to.
        question: the first prompt.
        turn: the attempt.
        feedback: on that attempt.
    """
    template, attempt = (
        template_of("revise", config.revise or ""),
        shown_of(turn.attempt.text, config.quote),
    )
    if config.context != "append":
        fitted = await fitted_prompt(
            policy, question, template, attempt=attempt, fields={"feedback": feedback.text}
        )
        return Revision(fitted.ids, tuple(question), fitted.text, fitted.shortened)
    attempt = quoted(policy, attempt)
    so_far = (*conversation, {"role": "assistant", "content": turn.attempt.text})
    before = turn.attempt.prompt_ids + turn.attempt.response_ids

    async def extended(text: str) -> tuple[tuple[int, ...], Message]:
        content = render(template, question=question[-1]["content"], attempt=attempt, feedback=text)
        message = {"role": "user", "content": content}
        return await policy.extend(before, so_far, message), message

    ids, message = await extended(quoted(policy, feedback.text))
    if len(ids) > policy.prompt_budget:
        return Revision(None, so_far, message["content"])
    # The same prompt with an empty feedback differs where the feedback's tokens are.
    without, _ = await extended("")
    return Revision(ids, (*so_far, message), message["content"], span=inserted_span(without, ids))


def inserted_span(without: Sequence[object], with_it: Sequence[object]) -> tuple[int, int]:
    """[start, end) of what `with_it` has and `without` lacks, by their common beginning and end.

    Example:
        >>> inserted_span([1, 2, 9], [1, 2, 5, 6, 9])
        (2, 4)
    """
    shortest = min(len(without), len(with_it))
    start = next((i for i in range(shortest) if without[i] != with_it[i]), shortest)
    # The common end must not reach into the common beginning: in [1, 1] -> [1, 1, 1] one 1 is new.
    tail = next(
        (i for i in range(shortest - start) if without[-1 - i] != with_it[-1 - i]), shortest - start
    )
    return start, len(with_it) - tail
