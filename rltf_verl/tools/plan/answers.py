"""Answers to show: the reference in the form that the prompt asks for, and one that is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rltf_verl.envs.base import Env, HasWorkedSolution
from rltf_verl.envs.trials import Trials
from rltf_verl.envs.waiting import grade
from rltf_verl.tools.plan.inputs import Case
from rltf_verl.types import Grade

FORMS = {
    "\\boxed{}": ("\\boxed{%s}", re.compile(r"\\boxed")),
    "####": ("#### %s", re.compile(r"####")),
    "<answer>": ("<answer>%s</answer>", re.compile(r"<answer>", re.IGNORECASE)),
    "```": ("```\n%s\n```", re.compile(r"```")),
    "the answer alone": ("%s", None),
}
"""Form of an answer -> how it is written, and what in a prompt asks for it."""
NO_IDEA = "I do not know."
"""A text that no grader should take for right."""

MOST_TRIED = 20
"""Other problems whose answers are tried as a wrong one."""


@dataclass(frozen=True)
class Tried:
    """An answer with its grade."""

    text: str
    form: str
    grade: Grade


async def tried_answer(env: Env, case: Case, text: str, form: str, trials: Trials) -> Tried:
    """Raises OutOfTimeError."""
    with trials.timed():
        return Tried(text, form, await grade(env, case.problem, text))


def forms_asked(case: Case) -> list[str]:
    """Forms that the prompt mentions."""
    said = "\n".join(message["content"] for message in case.messages)
    return [form for form, (_, mark) in FORMS.items() if mark is not None and mark.search(said)]


async def right_answer(env: Env, case: Case, trials: Trials) -> tuple[Tried | None, list[Tried]]:
    """The first of the reference's forms that is graded right, those that the prompt asks for
    first; and all that were tried before. Raises OutOfTimeError.
    """
    tried: list[Tried] = []
    for form, text in _candidates(env, case):
        found = await tried_answer(env, case, text, form, trials)
        if found.grade.correct:
            return found, tried
        tried.append(found)
    return None, tried


def _candidates(env: Env, case: Case) -> Iterator[tuple[str, str]]:
    reference, asked = case.problem.reference, forms_asked(case)
    if reference.strip():
        for form in asked:
            yield form, _written(form, reference)
    solution = env.worked_solution(case.problem) if isinstance(env, HasWorkedSolution) else ""
    if solution.strip():
        yield "the dataset's worked solution", solution
    if reference.strip():
        others = [form for form in FORMS if form not in asked]
        for form in others if asked else reversed(others):  # asked for none: the plainest first
            yield form, _written(form, reference)


def _written(form: str, reference: str) -> str:
    return reference if form in reference else FORMS[form][0] % reference


async def wrong_answer(
    env: Env, case: Case, others: Sequence[Case], right: Tried | None, trials: Trials
) -> Tried:
    """Another problem's reference in the form that is right here, if it is wrong here; else a text
    without an answer. Raises OutOfTimeError.
    """
    form = right.form if right is not None and right.form in FORMS else None
    best = None
    for other in others[:MOST_TRIED]:
        reference = other.problem.reference
        if form is None or not reference.strip() or reference == case.problem.reference:
            continue
        text = _written(form, reference)
        found = await tried_answer(env, case, text, form, trials)
        if found.grade.correct or found.grade.error is not None:
            continue
        if found.grade.format_ok:
            return found
        best = best or found
    return best or await tried_answer(env, case, NO_IDEA, "no answer", trials)
