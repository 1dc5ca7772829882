"""A small task, attempts at it and providers that say what they are told."""

from collections.abc import Sequence
from dataclasses import replace

from rltf_verl.envs.base import Env
from rltf_verl.feedback.base import FeedbackProvider, FeedbackRequest, FeedbackUnavailable
from rltf_verl.types import Attempt, Feedback, Grade, Problem, Turn

QUESTION = [{"role": "user", "content": "What is 6 times 7?"}]
PROBLEM = Problem(env="sums", index=3, data={"a": 6, "b": 7}, reference="42")


class Sums(Env):
    """The answer is what stands in the box, or the whole text."""

    name = "sums"

    def grade(self, problem: Problem, text: str) -> Grade:
        if "boom" in text:
            raise ZeroDivisionError("the grader broke")
        answer = text.removeprefix("\\boxed{").removesuffix("}").strip()
        return Grade(correct=answer == problem.reference, format_ok=True, parsed=answer)


def turn(text: str, feedback: str | None = None) -> Turn:
    said = None if feedback is None else Feedback(feedback, "scripted")
    return Turn(Attempt((1,), (2,), None, text, ended=True), Sums().grade(PROBLEM, text), 0.0, said)


def asked(
    *turns: Turn | str,
    seed: int = 77,
    session_id: int = 0,
    problem: Problem = PROBLEM,
    env=None,
    group=None,
):
    """A request about the last of the turns."""
    played = [t if isinstance(t, Turn) else turn(t) for t in turns or ("41",)]
    return FeedbackRequest(env or Sums(), problem, QUESTION, played, session_id, None, seed, group)


class Scripted(FeedbackProvider):
    """Gives the texts in order, the last one for ever; None is a failure. Remembers what it was
    asked.
    """

    name, constant = "scripted", False

    def __init__(
        self, *texts: str | None, sees_reference: bool = True, attempt: Attempt | None = None
    ) -> None:
        self.texts: Sequence[str | None] = texts
        self.sees_reference, self.attempt = sees_reference, attempt
        self.requests: list[FeedbackRequest] = []

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        text = self.texts[min(len(self.requests), len(self.texts) - 1)]
        self.requests.append(request)
        if text is None:
            raise FeedbackUnavailable(self.name, "nobody there")
        return replace(Feedback(text, self.name), attempt=self.attempt)
