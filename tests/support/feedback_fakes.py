"""A small task, attempts at it and providers that say what they are told."""

from rltf_verl.envs.base import Env
from rltf_verl.feedback.base import FeedbackRequest
from rltf_verl.types import Attempt, Feedback, Grade, Problem, Turn
from tests.support.episode_fakes import ScriptedProvider

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


class Scripted(ScriptedProvider):
    """The last text is given for ever."""

    sees_reference, repeats = True, True
