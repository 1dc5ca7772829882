"""Corrections that users have given: a recorded answer is the first attempt, the user's words are
the feedback, and the policy learns from its second answer. No verifier is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rltf_verl.envs.base import (
    CORRECT,
    INCORRECT,
    Candidate,
    Env,
    FeedbackLevel,
    GradeUnavailable,
    Splits,
)
from rltf_verl.types import Attempt, Grade, Problem

FIELDS = ("id", "attempt", "correction")
"""What `Problem.data` holds at least: `rltf data corrections` writes them."""


class Corrections(Env):
    """The environment `corrections`. `Problem.data` holds `id`, `attempt` (the answer that was
    given) and `correction` (what the user said to it); there is no reference answer.

    Training takes every complete second answer that is not the recorded one again for right: a
    correction that is wrong, or an answer that ignores it, is learnt too. A verifier or a judge of
    yours decides instead in a subclass:

        class Mine(Corrections):
            def grade(self, problem, text):  # validations
                return Grade(follows(text, problem.data["correction"]), format_ok=True)

            def accept(self, problem, attempt, turn):  # training; None: ask `grade`
                return None if turn else super().accept(problem, attempt, turn)
    """

    name = "corrections"
    revise_templates: Mapping[str, str] | None = {"attempt": "note", "append": "plain_append"}

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """Raises ValueError: the problems are those of a file of conversations."""
        raise ValueError(
            "rltf.env.name=corrections makes no problems: rltf data corrections chats.jsonl --out"
            " FOLDER does"
        )

    def recorded(self, problem: Problem) -> str | None:
        """The answer that the user corrected."""
        return str(problem.data["attempt"])

    def accept(self, problem: Problem, attempt: Attempt, turn: int) -> Grade | None:
        """No first answer is right, so the correction follows. A second one is, unless it is empty,
        was cut off, or repeats the recorded one.
        """
        text = attempt.text.strip()
        given = str(problem.data["attempt"]).strip()
        return Grade(turn > 0 and attempt.ended and text not in ("", given), format_ok=bool(text))

    def grade(self, problem: Problem, text: str) -> Grade:
        """Raises GradeUnavailable: only a subclass can tell whether an answer needs correcting. An
        empty one does.
        """
        if not text.strip():
            return Grade(correct=False, format_ok=False)
        raise GradeUnavailable(
            "corrections do not say which answers are right; give rltf.env.name a subclass of"
            " Corrections with a method `grade`"
        )

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """The user's words, from level `hint` on. On another answer than the recorded one that one
        is quoted before them.
        """
        if grade.correct:
            return CORRECT
        if level not in ("hint", "full"):
            return INCORRECT
        given, correction = str(problem.data["attempt"]), str(problem.data["correction"])
        if text == given:
            return correction
        return f"Someone else answered:\n{given}\n\nThe user said to that:\n{correction}"

    def candidates(self, problem: Problem, text: str, attempt: str) -> Sequence[Candidate]:
        """None: no answer is known that could be given away."""
        return ()

    def trouble_with(self, problem: Problem) -> str | None:
        """Why a row cannot be played: it is not one of `rltf data corrections`."""
        missing = ", ".join(name for name in FIELDS if name not in problem.data)
        fix = "make the file with rltf data corrections"
        return f"a correction lacks {missing}: {fix}" if missing else None
