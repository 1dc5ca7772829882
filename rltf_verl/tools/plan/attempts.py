"""Attempts to show: the reference in the form that the prompt asks for, and a wrong answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rltf_verl.envs.base import Env, HasWorkedSolution
from rltf_verl.envs.dry_run import DryRun
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
"""Form of an answer -> its text, and the pattern in a prompt that asks for it."""
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


async def tried_answer(env: Env, case: Case, text: str, form: str, dry_run: DryRun) -> Tried:
    """Raises OutOfTimeError."""
    with dry_run.timed():
        return Tried(text, form, await grade(env, case.problem, text))


def forms_asked(case: Case) -> list[str]:
    """Forms that the prompt mentions."""
    prompt = "\n".join(message["content"] for message in case.messages)
    return [form for form, (_, mark) in FORMS.items() if mark is not None and mark.search(prompt)]


async def right_answer(env: Env, case: Case, dry_run: DryRun) -> tuple[Tried | None, list[Tried]]:
    """The first of the reference's forms that is graded right, those that the prompt asks for
    first; and all that were tried before. Raises OutOfTimeError.
    """
    tried: list[Tried] = []
    for form, text in _candidates(env, case):
        answer = await tried_answer(env, case, text, form, dry_run)
        if answer.grade.correct:
            return answer, tried
        tried.append(answer)
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
    env: Env, case: Case, others: Sequence[Case], right: Tried | None, dry_run: DryRun
) -> Tried:
    """An answer in the form that is read here, if it is wrong here: the reference with another
    digit, or another problem's reference; else a text without an answer. Raises OutOfTimeError.
    """
    forms = [*([right.form] if right is not None else []), *forms_asked(case), "\\boxed{}"]
    form = next(form for form in forms if form in FORMS)
    own, best = case.problem.reference, None
    like = sorted((o.problem.reference for o in others), key=lambda r: abs(len(r) - len(own)))
    for reference in [_another_digit(own), *like[:MOST_TRIED]]:
        if not reference.strip() or reference == own:
            continue
        answer = await tried_answer(env, case, _written(form, reference), form, dry_run)
        if answer.grade.correct or answer.grade.error is not None:
            continue
        if answer.grade.format_ok:
            return answer
        best = best or answer
    return best or await tried_answer(env, case, NO_IDEA, "no answer", dry_run)


def _another_digit(reference: str) -> str:
    """The reference with another last digit.

    >>> _another_digit("x = 49")
    'x = 48'
    """
    digits = list(re.finditer(r"\d", reference))
    if not digits:
        return ""
    place = digits[-1].start()
    digit = int(reference[place])
    other = str(digit + 1 if digit < 9 else 8)
    return reference[:place] + other + reference[place + 1 :]
