"""Promises of an environment whose attempt is one answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean

from rltf_verl.envs.base import LEVELS, Env, FeedbackLevel
from rltf_verl.envs.calls import attempt_of
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.episode.reward import score_of
from rltf_verl.feedback.verifier import VerifierProvider
from rltf_verl.registry import UserCodeError
from rltf_verl.tools.contract.promises import (
    NONSENSE,
    Check,
    NotTriedError,
    for_each_problem,
    hostile_texts,
    reread,
)
from rltf_verl.tools.feedback.attempts import (
    FORMS,
    as_asked,
    collect,
    feedback_on,
    request_about,
    written,
)
from rltf_verl.tools.feedback.verdicts import FAULTS, CheckedFeedback, findings_of
from rltf_verl.types import Problem

GUESSES = ("0", "1", "A", "yes", "no", "True", "False")
NUM_CONSTANT, MIN_CONSTANT = 20, 8
"""Problems that are answered alike, and the fewest that say something."""
NUM_EXPLAINED = 8
"""Problems at which explanations are looked at."""
MOST_CONSTANT = 0.75
"""Highest mean score of one answer to all: a fair yes or no is right in half of them."""


def checks(own: Env, env: Env, seed: int, num_hostile: int) -> dict[str, Check]:
    """Promise -> how it is tested.

    Args:
        own: the environment.
        env: its stand-in, whose calls have a deadline.
        seed: of the hostile texts.
        num_hostile: how many there are.
    """
    if own.grades_async:  # each verdict of a judge costs money, and may change
        return {}
    each = partial(partial, for_each_problem, own)
    # A table: what `env check` prints, in this order.
    return {
        "the reference is graded correct": each(partial(_reference, env)),
        "nonsense is graded wrong": each(partial(_nonsense, env)),
        "grades are the same each time": each(partial(_repeatable, env)),
        "below `full` no explanation gives the answer away": partial(
            _finds, "tells the answer", own, env, LEVELS[:-1]
        ),
        "`hint` and `full` say something": partial(_finds, "no text", own, env, LEVELS[-2:]),
        "no constant answer scores well": partial(_constants, env),
        f"{num_hostile} hostile texts raise nothing": partial(
            _hostile, own, env, seed, num_hostile
        ),
    }


def _reference(env: Env, problem: Problem) -> Iterator[str]:
    if not problem.reference:
        raise NotTriedError("the problems have no reference answer")
    grades = [env.grade(reread(problem), written(form, problem.reference)) for form in FORMS]
    if not any(grade.correct and grade.format_ok for grade in grades):
        yield (
            f"its reference {problem.reference[:60]!r} is graded wrong, also in \\boxed{{}} and in"
            " a code block"
        )


def _nonsense(env: Env, problem: Problem) -> Iterator[str]:
    yield from (
        f"{text!r} is graded correct" for text in NONSENSE if env.grade(problem, text).correct
    )


def _constants(env: Env, problems: Sequence[Problem]) -> Iterator[str]:
    """Answers that pay whatever the question: the commonest references, and words that guess."""
    problems = problems[:NUM_CONSTANT]
    if len(problems) < MIN_CONSTANT:
        raise NotTriedError(f"fewer than {MIN_CONSTANT} problems")
    one = problems[0]
    # the first form in which a reference is graded right; a box if none is
    read = (form for form in FORMS if env.grade(one, written(form, one.reference)).correct)
    form = next(read, "\\boxed{}")
    common = Counter(problem.reference for problem in problems).most_common(3)
    for answer in dict.fromkeys([*(reference for reference, _ in common), *GUESSES]):
        text = written(form, answer)
        score = fmean(score_of(env.grade(problem, text)) for problem in problems)
        if score > MOST_CONSTANT:
            yield (
                f"{text[:60]!r} scores {score:.2f} on average of {len(problems)} problems:"
                " a policy may learn it and nothing else"
            )


def _repeatable(env: Env, problem: Problem) -> Iterator[str]:
    for text in (*NONSENSE, problem.reference):
        if env.grade(problem, text) != env.grade(problem, text):
            yield f"{text[:60]!r} is graded differently the second time"


def _finds(
    fault: str,
    own: Env,
    env: Env,
    levels: Sequence[FeedbackLevel],
    problems: Sequence[Problem],
) -> Iterator[str]:
    """A fault of its explanations, as `rltf feedback check` finds it."""
    questions = [as_asked(env, problem) for problem in problems[:NUM_EXPLAINED]]
    rules = [rule for rule in FAULTS if rule.name in (fault, "raises")]
    for level in levels:
        checked = collect(own, VerifierProvider(level), questions, DryRun())
        for finding in findings_of(CheckedFeedback(env, checked), rules):
            yield f"level {level}, {finding.why}"


def _hostile(own: Env, env: Env, seed: int, num: int, problems: Sequence[Problem]) -> Iterator[str]:
    for k, text in enumerate(hostile_texts(seed, num)):
        question = as_asked(env, problems[k % len(problems)])
        try:
            grade = env.grade(question.problem, text)
            request = request_about(own, question, attempt_of(own, text), grade)
            for level in LEVELS:
                feedback_on(request, VerifierProvider(level))
        except UserCodeError as error:  # what it raises is the finding
            yield f"problem {question.problem.index}, {text[:80]!r}: {error}"
