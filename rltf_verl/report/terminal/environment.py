"""What the policy sees of an environment: a problem, a wrong answer, and what is said about it at
every level.
"""

from __future__ import annotations

from collections.abc import Sequence

from rltf_verl.envs.base import LEVELS, Env, GradesAsync
from rltf_verl.types import Problem

NUM_TRIED = 40
"""Problems whose answers are tried as a wrong answer to the first one."""


def example(env: Env, seed: int, wrong: str | None = None) -> str:
    """A problem in Markdown: first prompt, reference, a wrong answer, feedback by level.

    Args:
        env: the environment.
        seed: of the problem.
        wrong: the wrong answer; None takes the reference of another problem.

    Raises:
        ValueError: `wrong` is graded correct, or no other problem's reference is wrong here.
    """
    problems = env.build(seed, 1 if isinstance(env, GradesAsync) else NUM_TRIED, 0).train
    problem = problems[0]
    parts = ["The first prompt:", fenced(env.prompt(problem))]
    if isinstance(env, GradesAsync):  # its verdicts are bought
        return "\n\n".join(parts)
    answer = _wrong_answer(env, problems) if wrong is None else wrong
    grade = env.grade(problem, answer)
    if grade.correct:
        raise ValueError(f"--wrong: {answer!r} is a right answer to this problem")
    said = {level: env.explain(problem, answer, grade, level) for level in LEVELS}
    parts += ["The reference:", fenced(problem.reference), "A wrong answer:", fenced(answer)]
    parts += [
        part
        for level, text in said.items()
        for part in (f"Feedback, `level={level}`:", fenced(text))
    ]
    return "\n\n".join(parts)


def fenced(text: str) -> str:
    """A block of its own, whatever is in the text."""
    fence = "~~~"
    while fence in text:
        fence += "~"
    return f"{fence}text\n{text}\n{fence}"


def _wrong_answer(env: Env, problems: Sequence[Problem]) -> str:
    for other in problems[1:]:
        answer = other.reference if "```" in other.reference else f"\\boxed{{{other.reference}}}"
        grade = env.grade(problems[0], answer)
        if grade.format_ok and not grade.correct:
            return answer
    raise ValueError("no other problem's reference is a wrong answer here; give one with --wrong")
