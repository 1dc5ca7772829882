"""What a feedback provider is, and how it says that it has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rltf_verl.envs.base import Env
from rltf_verl.types import Feedback, Problem, Turn


class FeedbackUnavailable(Exception):
    """No feedback could be had for this attempt. Never scored against the policy; `rltf.feedback.on_error` decides.

    Args:
        provider: the provider's name.
        cause: one line that says what failed and what to change.
    """

    def __init__(self, provider: str, cause: str) -> None:
        super().__init__(f"{provider}: {cause}")
        self.provider = provider
        self.cause = cause


class FeedbackProvider(Protocol):
    """Turns an attempt into text feedback. One instance per process, shared by all its sessions."""

    name: str
    sees_reference: bool
    """It is shown the reference answer, so what it writes can leak it."""
    constant: bool
    """It always says the same sentence, so there is nothing to model."""

    async def feedback(self, env: Env, problem: Problem, turns: Sequence[Turn]) -> Feedback:
        """Feedback on the last of `turns`. Raises FeedbackUnavailable."""
        ...
