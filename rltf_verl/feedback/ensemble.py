"""Several providers as one: the first that answers, what most of them say, or all of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal

from rltf_verl.feedback.base import (
    FeedbackProvider,
    FeedbackRequest,
    FeedbackUnavailable,
    Subject,
    ask,
    subject_of,
    tells_answer_of,
)
from rltf_verl.feedback.blocks import common_subject, provider_of_block
from rltf_verl.judge.gateway import judges_of
from rltf_verl.registry import require_choice
from rltf_verl.types import Feedback

RULES = ("first", "vote", "concatenate")


class EnsembleProvider:
    """Asks its members by a rule; it has no feedback only when none of them has any.

    `first`: one after the other until one answers. `vote`: all at once, the text that most of them
    give (letter case and spaces aside; the earlier member's if it is a draw), which is meant for
    members that choose between fixed sentences. `concatenate`: all at once, every answer as a
    paragraph, in the members' order.

    Args:
        members: blocks `{provider: …, its options}`.
        rule: see above.

    Raises:
        ValueError: no members, unknown rule, or what a member raises.
    """

    name = "ensemble"

    def __init__(
        self,
        members: Sequence[Mapping[str, Any]],
        rule: Literal["first", "vote", "concatenate"] = "first",
    ) -> None:
        require_choice("rltf.feedback.rule", rule, RULES)
        if isinstance(members, (str, Mapping)) or not members:
            raise ValueError(
                f"rltf.feedback.members={members!r}: must be a list of blocks, [{{provider: …}}, …]"
            )
        self.members = tuple(
            provider_of_block(f"members[{i}]", block) for i, block in enumerate(members)
        )
        if any(member.name in ("policy", "paired") for member in self.members):
            raise ValueError(
                "rltf.feedback.members: a critique that the policy writes is trained on, which of"
                " several could not be credited; leave out `policy` and `paired`, or use one of"
                " them as rltf.feedback.provider"
            )
        self.rule = rule
        self.sees_reference = any(member.sees_reference for member in self.members)
        self.tells_answer = any(map(tells_answer_of, self.members))
        self.subject: Subject | None = common_subject(map(subject_of, self.members))
        self.constant = all(member.constant for member in self.members)
        self.judges = tuple(chain.from_iterable(map(judges_of, self.members)))

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The members' feedback by the rule. Raises FeedbackUnavailable with the causes of all of
        them.
        """
        if self.rule == "first":
            return await self._first(request)
        outcomes = await asyncio.gather(*(_outcome(member, request) for member in self.members))
        said = [outcome for outcome in outcomes if isinstance(outcome, Feedback)]
        if not said:
            raise self._unavailable([str(outcome) for outcome in outcomes])
        return _voted(said) if self.rule == "vote" else self._joined(said)

    async def _first(self, request: FeedbackRequest) -> Feedback:
        causes = []
        for member in self.members:
            outcome = await _outcome(member, request)
            if isinstance(outcome, Feedback):
                return outcome
            causes.append(str(outcome))
        raise self._unavailable(causes)

    def _joined(self, said: Sequence[Feedback]) -> Feedback:
        text = "\n\n".join(feedback.text for feedback in said)
        return Feedback(
            text, self.name, sees_reference=any(feedback.sees_reference for feedback in said)
        )

    def _unavailable(self, causes: Sequence[str]) -> FeedbackUnavailable:
        return FeedbackUnavailable(self.name, f"no member had any: {'; '.join(causes)}")


async def _outcome(
    member: FeedbackProvider, request: FeedbackRequest
) -> Feedback | FeedbackUnavailable:
    try:
        said = await ask(member, request)
    except FeedbackUnavailable as error:
        return error
    return replace(said, sees_reference=said.sees_reference or member.sees_reference)


def _voted(said: Sequence[Feedback]) -> Feedback:
    forms = [" ".join(feedback.text.casefold().split()) for feedback in said]
    winner, _ = Counter(forms).most_common(1)[0]  # of equally many, the one met first
    return said[forms.index(winner)]
