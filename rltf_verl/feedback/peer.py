"""Feedback from a sibling: another episode's correct attempt at the same problem, when the group
has one.
"""

from __future__ import annotations

from typing import Annotated

from rltf_verl.feedback.base import FeedbackRequest, FeedbackUnavailable, Subject
from rltf_verl.feedback.correctness import CORRECT, INCORRECT
from rltf_verl.kinds import Within
from rltf_verl.prompts.quote import shown_of
from rltf_verl.types import Feedback

INTRODUCTION = f"{INCORRECT} Another attempt at the same question was correct:"


class PeerProvider:
    """Quotes an attempt that solved the problem no later than this turn.

    It waits until the group's other episodes are as far as this one, so that the choice does not
    depend on who is faster. Episodes wait only for those behind them, so never in a circle, and
    never longer than `wait_s`.

    What it quotes *is* an answer, so it counts as seeing the reference.

    Args:
        wait_s: longest wait for the siblings, seconds.
        num_words: longest quotation; its end is kept, where the answer stands. null quotes all of
            it.

    Raises:
        ValueError: a value that cannot be.
    """

    name = "peer"
    sees_reference = True
    constant = False
    subject: Subject = "attempt"
    tells_answer = True

    def __init__(
        self,
        wait_s: Annotated[float, Within(0, 1e6)] = 60.0,
        num_words: Annotated[int, Within(1)] | None = None,
    ) -> None:
        self.wait_s, self.num_words = wait_s, num_words

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """A sibling's solution. Raises FeedbackUnavailable if no episode of the group has solved
        the problem.
        """
        if request.turns[-1].grade.correct:
            return Feedback(CORRECT, self.name)
        if request.group is None:
            raise FeedbackUnavailable(
                self.name, "this episode plays alone; raise actor_rollout_ref.rollout.n"
            )
        turn = len(request.turns) - 1
        found = await request.group.solutions(request.session_id, turn, self.wait_s)
        if not found:
            raise FeedbackUnavailable(
                self.name,
                f"no other episode had solved problem {request.problem.index} by turn {turn + 1}",
            )
        text = shown_of(found[request.seed % len(found)].text, request.quote)
        return Feedback(
            f"{INTRODUCTION}\n\n{_tail(text, self.num_words)}", self.name, sees_reference=True
        )


def _tail(text: str, num_words: int | None) -> str:
    words = text.split()
    if num_words is None or len(words) <= num_words:
        return text.strip()
    return f"… {' '.join(words[-num_words:])}"
