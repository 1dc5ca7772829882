"""What the policy sees of an environment: a problem, a wrong answer, and the feedback on it at
every level.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from rltf_verl.envs.base import LEVELS, Env
from rltf_verl.envs.calls import bounded, notes_text
from rltf_verl.episode.parts import template_for
from rltf_verl.prompts import render, template_of
from rltf_verl.tools.contract.answers import form_of
from rltf_verl.tools.feedback.attempts import written
from rltf_verl.types import PlayedStep, Problem, Trajectory

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
    env = bounded(env)
    if env.acts:
        return _acting_example(env, seed)
    problems = env.build(seed, 1 if env.grades_async else NUM_TRIED, 0).train
    problem = problems[0]
    parts = ["The first prompt:", fenced(env.prompt(problem))]
    if env.grades_async:  # its verdicts are bought
        return "\n\n".join([*parts, "A judge grades: no wrong answer is made up."])
    answer = wrong_answer(env, problems) if wrong is None else wrong
    if answer is None:
        raise ValueError(
            f"none of {len(problems) - 1} other references is read as a wrong answer to the first"
            " problem, plain or in \\boxed{}; give one with --wrong"
        )
    grade = env.grade(problem, answer)
    if grade.correct:
        raise ValueError(f"--wrong: {answer!r} is a right answer to this problem")
    parts += ["The reference:", fenced(problem.reference), "A wrong answer:", fenced(answer)]
    for level in LEVELS:
        text = env.explain(problem, answer, grade, level)
        parts += [f"Feedback, `level={level}`:", fenced(text)]
    return "\n\n".join(parts)


def _acting_example(env: Env, seed: int) -> str:
    """The first prompt, the tools, and the solution if the environment has one."""
    problem = env.build(seed, 1, 0).train[0]
    parts = ["The first prompt:", fenced(env.prompt(problem))]
    for tool in env.tools:
        parts += ["A tool:", fenced(json.dumps(tool["function"], indent=1))]
    state, nothing = env.open(problem, seed), PlayedStep("I am done.", (), (), 0, 0)
    trajectory = Trajectory((nothing,), "answered", state)
    grade = env.grade(problem, trajectory)
    for action in env.solution(problem):
        call = f"{action.tool or action.text} {json.dumps(dict(action.arguments))}"
        parts += ["A right step, and what comes back:", fenced(call)]
        parts.append(fenced(env.step(state, action).observation))
    env.close(state)
    for level in LEVELS:
        notes = notes_text(env.explain(problem, trajectory, grade, level))
        parts += [f"Feedback on an attempt without a step, `level={level}`:", fenced(notes)]
    return "\n\n".join(parts)


def fenced(text: str) -> str:
    """A block of its own, whatever is in the text."""
    fence = "~~~"
    # a problem may be about Markdown
    while fence in text:
        fence += "~"
    return f"{fence}text\n{text}\n{fence}"


def second_prompt(env: Env, revise: str | None, seed: int) -> str:
    """What the policy reads after a wrong answer, in Markdown, and which template it is.

    Args:
        env: the environment.
        revise: `rltf.episode.revise`; None is the one that fits.
        seed: of the problem.

    Raises:
        ValueError: a template that does not fit.
    """
    template = template_for(env, revise)
    problems = env.build(seed, 1 if env.grades_async else NUM_TRIED, 0).train
    problem, attempt, hint = problems[0], "(the attempt)", "(the feedback)"
    if not env.grades_async:
        attempt = wrong_answer(env, problems) or "I do not know."
        hint = env.explain(problem, attempt, env.grade(problem, attempt), "hint")
    text = render(
        template_of("revise", template),
        question=env.prompt(problem),
        attempt=attempt,
        feedback=hint,
    )
    return f"The second prompt (template {template}, a hint of the verifier):\n\n{fenced(text)}"


def wrong_answer(env: Env, problems: Sequence[Problem]) -> str | None:
    """Another problem's reference that is an answer to the first one, and wrong."""
    form = form_of(env, problems[0])
    # a reference that the grader reads, and that is right elsewhere: the most likely mistake
    for other in problems[1:]:
        answer = written(form, other.reference)
        grade = env.grade(problems[0], answer)
        if grade.format_ok and not grade.correct:
            return answer
    return None
