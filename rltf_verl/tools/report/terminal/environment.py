"""An environment as the policy sees it: a problem, a wrong answer, the feedback on it at every
level, and the second prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rltf_verl.envs.base import LEVELS, Env
from rltf_verl.envs.calls import attempt_of, bounded
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.episode.parts import template_for
from rltf_verl.feedback.verifier import VerifierProvider
from rltf_verl.prompts import render, template_of
from rltf_verl.tools.contract.acting import graded_attempt, steps_alone
from rltf_verl.tools.feedback.attempts import NO_IDEA, as_asked, collect, feedback_on, request_about
from rltf_verl.types import Problem

NUM_TRIED = 2
"""Problems: the one that is shown, and one whose answer is tried as a wrong one."""


def example(env: Env, seed: int, wrong: str | None, revise: str | None) -> str:
    """A problem in Markdown: first prompt, reference, a wrong answer, feedback by level, second
    prompt.

    Args:
        env: the environment.
        seed: of the problem.
        wrong: the wrong answer; None makes one.
        revise: `rltf.episode.revise`; None is the one that fits.

    Raises:
        ValueError: the answer is graded correct, or a template does not fit.
        UserCodeError: the environment fails.
    """
    own, env = env, bounded(env)
    problems = env.build(seed, NUM_TRIED, 0).train
    question, about = as_asked(env, problems[0]), "Feedback"
    parts = ["The first prompt:", fenced(env.prompt(problems[0]))]
    if env.grades_async:  # its verdicts are bought
        return "\n\n".join([*parts, "A judge grades: no wrong answer is made up."])
    if env.acts:
        parts += _tools_and_steps(env, problems[0])
        attempt, grade = graded_attempt(env, problems[0], [])
        about = "Feedback on an attempt without a step"
    else:
        answer = wrong_answer(own, problems) if wrong is None else wrong
        attempt, grade = attempt_of(env, answer), env.grade(problems[0], answer)
        if grade.correct:
            raise ValueError(f"--wrong: {answer!r} is a right answer to this problem")
        parts += ["The reference:", fenced(problems[0].reference)]
        parts += ["A wrong answer:", fenced(answer)]
    request, texts = request_about(own, question, attempt, grade), dict[str, str]()
    for level in LEVELS:
        texts[level] = feedback_on(request, VerifierProvider(level)).text
        parts += [f"{about}, `level={level}`:", fenced(texts[level])]
    if not env.acts:  # the second prompt of one that acts holds a trajectory
        template = template_for(env, revise)
        second = render(
            template_of("revise", template),
            question=question.messages[0]["content"],
            attempt=attempt.text,
            feedback=texts["hint"],
        )
        parts += [f"The second prompt (template {template}, `level=hint`):", fenced(second)]
    return "\n\n".join(parts)


def _tools_and_steps(env: Env, problem: Problem) -> Iterator[str]:
    """The tools, and the solution if the environment has one."""
    for tool in env.tools:
        yield from ("A tool:", fenced(json.dumps(tool["function"], indent=1)))
    steps = steps_alone(env, problem)[1:]
    for action, result in zip(env.solution(problem), steps, strict=False):
        call = f"{action.tool or action.text} {json.dumps(dict(action.arguments))}"
        yield from ("A right step, and what comes back:", fenced(call), fenced(result.observation))


def fenced(text: str) -> str:
    """A block of its own, whatever is in the text."""
    fence = "~~~"
    # a problem may be about Markdown
    while fence in text:
        fence += "~"
    return f"{fence}text\n{text}\n{fence}"


def wrong_answer(env: Env, problems: Sequence[Problem]) -> str:
    """An answer to the first problem that is read, and wrong; else none."""
    tried = collect(env, VerifierProvider(), [as_asked(env, p) for p in problems], DryRun())
    wrong = (one for one in tried if one.row == 0 and one.first.readable and not one.first.correct)
    return next((one.attempt.text for one in wrong), NO_IDEA)
