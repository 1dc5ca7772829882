"""Feedback of the environment's own verifier on an attempt. No model, no network, no delay."""

from __future__ import annotations

from collections.abc import Sequence

from rltf_verl.envs.base import LEVELS, FeedbackLevel
from rltf_verl.envs.calls import call_env, deadline_of, explain
from rltf_verl.feedback.base import (
    FeedbackProvider,
    FeedbackRequest,
    NoWords,
    unavailable_because,
)
from rltf_verl.registry import UserCodeError, require_choice
from rltf_verl.types import Feedback


class VerifierProvider(FeedbackProvider):
    """`Env.explain` at one level of detail, or at one after the other.

    The verifier always compares with the reference. It counts as seen if the *text* may hold it: by
    the contract of `Env.explain` only `full` does, so only `full` has `sees_reference`, and `hint`
    of environments that quote others. It states the answer on purpose (`tells_answer`): a leak
    guard that drops leaks drops all of it. `verdict` is one sentence, so it is `constant`.

    Args:
        level: `verdict`, `location`, `hint` or `full`; each is more detailed. A list is
            by turn: the k-th is for the k-th attempt of an episode, the last also for all later
            ones.

    Raises:
        ValueError: unknown level, or an empty list.
    """

    name = "verifier"

    def __init__(self, level: FeedbackLevel | Sequence[FeedbackLevel] = "hint") -> None:
        self.levels: tuple[FeedbackLevel, ...] = (
            tuple(level) if isinstance(level, (list, tuple)) else (str(level),)
        )
        if not self.levels:
            raise ValueError(
                f"rltf.feedback.level=[]: must be one of {', '.join(LEVELS)}, or a list of them by"
                " turn"
            )
        for each in self.levels:
            require_choice("rltf.feedback.level", each, LEVELS)
        self.sees_reference = self.tells_answer = "full" in self.levels
        self.subject = "answer" if set(self.levels) == {"full"} else "attempt"
        self.constant = set(self.levels) == {"verdict"}

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The verifier's words on the last of the turns. Raises FeedbackUnavailable if it fails or
        is empty.
        """
        env, turn = request.env, request.turns[-1]
        level = self.levels[min(len(request.turns), len(self.levels)) - 1]
        try:
            text, notes = await call_env(
                deadline_of(env), explain, env, request.problem, turn.attempt, turn.grade, level
            )
        except UserCodeError as error:
            failure = unavailable_because(
                self.name, f"explain() of environment {env.name} failed: ", error, type(env)
            )
        else:
            if text.strip():
                # Words of others may hold the answer at `hint` already.
                quotes = level == "hint" and env.quotes_others
                sees = quotes or level == "full"
                return Feedback(text, self.name, sees_reference=sees, notes=notes)
            cause = f"explain() of environment {env.name} is empty at level {level}"
            failure = NoWords(self.name, cause)
        raise failure
