"""Placeholders before a run: for judges and for other episodes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from rltf_verl.episode.parts import Parts
from rltf_verl.feedback.base import FeedbackRequest, WrappedProvider, ask
from rltf_verl.feedback.judge_prompt import JUDGED
from rltf_verl.judge.settings import JudgeSettings
from rltf_verl.judge.wire import Call, Reply
from rltf_verl.types import Feedback

CRITIQUE = "(what the policy writes about its attempt)"
LATER = {"shuffled": "(feedback on an attempt at another problem)"}
"""Provider -> what its feedback will be."""
FORM = 200
"""Characters at the end of a judge's prompt, which say what form the reply has."""
SIBLING = "(another episode's right answer to this problem, if there is one)"
"""Placeholder of a sibling's answer for a teacher."""
PATIENCE_S = 10.0
"""Seconds that a plan waits for a provider; a run waits longer."""
SLOW = f"(feedback that takes more than {PATIENCE_S:g} s)"


@dataclass
class RecordingGateway:
    """A judge's gateway that records its calls and sends none."""

    settings: JudgeSettings
    calls: list[Call] = field(default_factory=list)

    async def complete(self, call: Call) -> Reply:
        """A placeholder; with the lowest usual score where one is wanted, and nothing found by a
        leak guard.
        """
        self.calls.append(call)
        form = call.messages[-1]["content"][-FORM:]
        if "Verdict:" in form:
            return Reply("Verdict: no")
        return Reply(f"Critique: {JUDGED}\nScore: 1" if "Score:" in form else JUDGED)

    def note(self, event: str) -> None:
        """Nothing is counted here."""


class PlaceholderProvider(WrappedProvider):
    """A provider, called before the run."""

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The provider's, or a placeholder. Raises FeedbackUnavailable."""
        later = LATER.get(self.name)
        if later is not None:
            return Feedback(later, self.name)
        try:
            return await asyncio.wait_for(ask(self.inner, request), PATIENCE_S)
        except asyncio.TimeoutError:
            return Feedback(SLOW, self.name)


def with_placeholders(parts: Parts) -> tuple[Parts, list[RecordingGateway]]:
    """The parts with placeholders, and the judges among them."""
    asked: list[RecordingGateway] = []

    def opened(settings: JudgeSettings) -> RecordingGateway:
        asked.append(RecordingGateway(settings))
        return asked[-1]

    return replace(parts.open(opened), provider=PlaceholderProvider(parts.provider)), asked
