"""Calls of a feedback function on made attempts: what it says about each, twice."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from rltf_verl.data.questions import Question
from rltf_verl.envs.base import Env
from rltf_verl.envs.dry_run import DryRun, OutOfTimeError
from rltf_verl.envs.reward_function.env import SAID, RewardFunction
from rltf_verl.envs.waiting import await_env, bounded
from rltf_verl.feedback.base import FeedbackProvider, FeedbackRequest, ask
from rltf_verl.feedback.verifier import VerifierProvider
from rltf_verl.policy import NoPolicy
from rltf_verl.registry import UserCodeTimeoutError, described
from rltf_verl.texts import clean_text
from rltf_verl.tools.feedback.attempts import (
    FORMS,
    MadeAttempt,
    attempts_at,
    forms_asked,
    right_texts,
    written,
)
from rltf_verl.types import Attempt, Grade, Problem, Turn

CALL_S = 10.0
"""Seconds of a call. A function that once takes longer is not called again."""
FIRST_CALLS = 0.6
"""Share of the time for first calls; the rest is for the second ones."""
NUM_OTHERS = 2
"""Other rows whose references are tried at each."""


class CheckedFunction(RewardFunction):
    """A reward function that shows its last score, also one that a run refuses."""

    score: Any = None

    def _grade(self, returned: Any) -> Grade:
        self.score = returned.get("score") if isinstance(returned, Mapping) else returned
        return super()._grade(returned)


@dataclass(frozen=True)
class FeedbackCall:
    """What came of one call."""

    correct: bool = False
    score: Any = None
    """A number, but for what a reward function returned and a run refuses."""
    text: str = ""
    error: str = ""
    """What was raised or refused; empty if nothing."""
    late: bool = False
    """It did not return in its time."""
    changes_arguments: bool = False


@dataclass(frozen=True)
class CheckedAttempt:
    """An attempt at a row, with what two calls came to."""

    row: int
    question: Question
    attempt: MadeAttempt
    first: FeedbackCall
    second: FeedbackCall | None = None


class Caller:
    """Calls an environment and a provider as a run does, each call within `CALL_S`.

    Args:
        env: grades.
        provider: writes the feedback.
    """

    def __init__(self, env: Env, provider: FeedbackProvider) -> None:
        self.env, self.provider = env, provider
        self.bounded = bounded(env, CALL_S)

    def call(self, question: Question, text: str) -> FeedbackCall:
        """What comes of an attempt. What the function prints is dropped."""
        problem = deepcopy(question.problem)
        try:
            with redirect_stdout(io.StringIO()):
                grade = self.bounded.grade(problem, text)
                said = self._text(question, problem, text, grade)
        except Exception as error:  # user code
            late = isinstance(error, UserCodeTimeoutError)
            return FeedbackCall(error=described(error), late=late)
        score = float(grade.correct) if grade.score is None else grade.score
        if isinstance(self.env, CheckedFunction):
            score = self.env.score
        return FeedbackCall(
            grade.correct,
            score,
            clean_text(said),
            (grade.error or "").removeprefix(SAID),
            changes_arguments=problem != question.problem,
        )

    def _text(self, question: Question, problem: Problem, text: str, grade: Grade) -> str:
        """A function's own words, without the verdict that a run puts before them."""
        if isinstance(self.provider, VerifierProvider):
            level = self.provider.levels[0]
            if isinstance(self.env, RewardFunction) and level == "hint":
                return str(grade.details.get("feedback", ""))
            return str(self.bounded.explain(problem, text, grade, level))
        turn = Turn(Attempt((), (), None, text, ended=True), grade, 0.0)
        request = FeedbackRequest(
            self.env, problem, question.messages, [turn], 0, NoPolicy(), seed=0
        )
        return asyncio.run(await_env(CALL_S, ask, self.provider, request)).text


def collect(caller: Caller, questions: Sequence[Question], time: DryRun) -> list[CheckedAttempt]:
    """Call twice on every attempt: all of them, then all of them again in the reverse order, so
    that a state between calls shows. Ends where the time ends, or a call does not return.

    Args:
        caller: of the environment and the provider.
        questions: rows of the dataset.
        time: counts the time of all calls.
    """
    checked: list[CheckedAttempt] = []
    with suppress(OutOfTimeError):
        made = [list(_made(caller, questions, row, time)) for row in range(len(questions))]
        longest = max(map(len, made), default=0)
        by_kind = ((r, each[k]) for k in range(longest) for r, each in enumerate(made) if each[k:])
        for row, attempt in by_kind:  # a function that stalls has been asked about every row
            with time.timed(FIRST_CALLS):
                first = caller.call(questions[row], attempt.text)
            checked.append(CheckedAttempt(row, questions[row], attempt, first))
            if first.late:
                return checked
    with suppress(OutOfTimeError):
        for k in reversed(range(len(checked))):
            with time.timed():
                second = caller.call(checked[k].question, checked[k].attempt.text)
            checked[k] = replace(checked[k], second=second)
    return checked


def _made(
    caller: Caller, questions: Sequence[Question], row: int, time: DryRun
) -> Iterator[MadeAttempt]:
    """Attempts at one row, in the form in which its reference is graded right."""
    problem, messages = questions[row].problem, questions[row].messages
    form = [*forms_asked(messages), "the answer alone"][0]
    right = written(form, problem.reference)
    for name, text in right_texts(caller.bounded, problem, messages):
        with time.timed(FIRST_CALLS):
            call = caller.call(questions[row], text)
        if call.correct:
            form, right = name if name in FORMS else form, text
        if call.correct or call.late:
            break
    references = (q.problem.reference for q in (*questions[row + 1 :], *questions[:row]))
    own = problem.reference.strip()
    others = [text for text in dict.fromkeys(references) if text.strip() not in ("", own)]
    yield from attempts_at(problem.reference, others[:NUM_OTHERS], form, right)
