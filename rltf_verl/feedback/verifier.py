"""What the environment's own verifier can say about an attempt. No model, no network, no delay."""

from __future__ import annotations

from rltf_verl.envs.base import LEVELS, FeedbackLevel
from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable
from rltf_verl.registry import require_choice
from rltf_verl.types import Feedback


class VerifierProvider:
    """`Env.explain` at one level of detail.

    The verifier always compares with the reference. What counts as seeing it is whether the *text* may hold it: by the
    contract of `Env.explain` only `full` does, so only `full` has `sees_reference`. It states the answer on purpose:
    a leak guard that drops leaks drops all of it. `verdict` is one sentence, so it is `constant`.

    Args:
        level: `verdict`, `location`, `hint` or `full`; each says more than the one before.

    Raises:
        ValueError: unknown level.
    """

    name = "verifier"

    def __init__(self, level: FeedbackLevel = "hint") -> None:
        require_choice("rltf.feedback.level", level, LEVELS)
        self.level = level
        self.sees_reference = level == "full"
        self.constant = level == "verdict"

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The verifier's words on the last of the turns. Raises FeedbackUnavailable if it fails or says nothing."""
        env, turn = request.env, request.turns[-1]
        try:
            text = env.explain(request.problem, turn.attempt.text, turn.grade, self.level)
        except Exception as error:  # environments are user code; their failure must not cost the session
            cause = f"explain() of environment {env.name} failed: {type(error).__name__}: {error}"
            raise FeedbackUnavailable(self.name, cause) from error
        if not text.strip():
            raise FeedbackUnavailable(
                self.name, f"explain() of environment {env.name} said nothing at level {self.level}"
            )
        return Feedback(text, self.name, sees_reference=self.sees_reference)
