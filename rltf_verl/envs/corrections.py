"""Corrections that users have given: a recorded answer is the first attempt, the user's words are
the feedback, and the policy learns from its second answer. No verifier is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rltf_verl.envs.base import (
    CORRECT,
    INCORRECT,
    Candidate,
    Env,
    FeedbackLevel,
    GradeUnavailable,
    Splits,
)
from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.wire import JudgeUnavailable
from rltf_verl.texts import without_thoughts
from rltf_verl.types import Attempt, Grade, Problem

FIELDS = ("id", "attempt", "correction")
"""Required fields of `Problem.data`: `rltf data corrections` writes them."""
FOLLOWED = "corrections/followed"
"""Template of the judge's prompt."""


class Corrections(Env):
    """The environment `corrections`. `Problem.data` holds `id`, `attempt` (the answer that was
    given), `correction` (what the user said to it) and, for a judge, `question` and what was said
    `before` it; there is no reference answer.

    A judge says of a second answer, and in validation of a first one, if it follows the correction.
    Without one training takes every complete second answer that is not the recorded one again for
    right: a correction that is wrong, or an answer that ignores it, is learnt too. A verifier of
    yours decides instead in a subclass:

        class Mine(Corrections):
            def grade(self, problem, text):  # validations
                return Grade(follows(text, problem.data["correction"]), format_ok=True)

            def accept(self, problem, attempt, turn):  # training; None: ask `grade`
                return None if turn else super().accept(problem, attempt, turn)

    Args:
        judge: a block with `endpoint`, `limits`, `price`, `cache_dir`, as of the provider `judge`;
            null: none.

    Raises:
        ValueError: a bad option of the judge; names the config key.
    """

    name = "corrections"
    revise_templates: Mapping[str, str] | None = {"attempt": "note", "append": "plain_append"}

    def __init__(self, judge: Mapping[str, Any] | None = None) -> None:
        self.judges = () if judge is None else (Judge(judge, "rltf.env.judge"),)

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
        """No first answer is right, so the correction follows. A second one is not if it is empty,
        was cut off, or repeats the recorded one, thoughts aside; of another the judge decides, and
        without one it is right.
        """
        text = without_thoughts(attempt.text).strip()
        given = without_thoughts(str(problem.data["attempt"])).strip()
        is_new = turn > 0 and attempt.ended and text not in ("", given)
        return None if is_new and self.judges else Grade(is_new, format_ok=bool(text))

    async def agrade(self, problem: Problem, text: str) -> Grade:
        """The verdict of the judge, which reads the answer without the thoughts before it.

        Raises:
            GradeUnavailable: none could be had; or no judge and no subclass with a method `grade`,
                and the answer is not empty.
        """
        answer = without_thoughts(text)
        if not answer.strip():
            return Grade(correct=False, format_ok=False)
        if not self.judges:
            raise GradeUnavailable(
                "corrections do not say which answers are right; set rltf.env.judge, or give"
                " rltf.env.name a subclass of Corrections with a method `grade`"
            )
        given = {name: str(problem.data[name]) for name in ("question", "attempt", "correction")}
        given |= {"before": str(problem.data.get("before", "")), "answer": answer}
        try:
            follows = await self.judges[0].says_yes(FOLLOWED, given)
        except JudgeUnavailable as error:
            raise GradeUnavailable(error.cause) from None
        return Grade(follows, format_ok=True)

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
        needed = (*FIELDS, "question") if self.judges else FIELDS
        missing = ", ".join(name for name in needed if name not in problem.data)
        fix = "make the file with rltf data corrections"
        return f"a correction lacks {missing}: {fix}" if missing else None
