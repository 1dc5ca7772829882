"""A judge that scores free text: its prompt, and the form of a score."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rltf_verl.envs.base import GradeUnavailable
from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.parsing import parse_reply
from rltf_verl.judge.wire import Call, JudgeUnavailable
from rltf_verl.prompts import render
from rltf_verl.prompts.quote import defused, fence_around
from rltf_verl.texts import without_thoughts

WORDS = 150
"""Limit of a critique in the judge's prompt."""

# `Score: 8`, `**Score:** 7.5/10`, `> score: 8 out of 10.`
_SCORE = re.compile(
    r"^(?:[^\S\n]|[>#*_-]){0,20}score[*_ \t]{0,8}:[*_\s]{0,8}(-?[0-9]{1,9}(?:\.[0-9]{1,9})?)"
    r"[ \t]{0,4}(?:/[ \t]{0,4}([0-9]{1,9})|out of ([0-9]{1,9}))?[*_ \t.]{0,20}$",
    re.IGNORECASE | re.MULTILINE,
)
"""Every run is bounded: what a judge says decides nothing about how long it is read."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The scores that a judge may give."""

    low: float
    high: float

    def share(self, score: float) -> float:
        """A score as a number in [0, 1]."""
        return (score - self.low) / (self.high - self.low)


@dataclass(frozen=True, slots=True)
class JudgedText:
    """One judge's reply on a text."""

    score: float
    """On the scale."""
    critique: str


def read_score(reply: str, scale: Scale) -> float | None:
    """The score on the last line that holds one; None if it is missing or off the scale.

    `8/10` and `8 out of 10` are read if 10 is the scale's end.
    """
    matches = list(_SCORE.finditer(reply))
    if not matches:
        return None
    end = matches[-1][2] or matches[-1][3]
    score = float(matches[-1][1])
    fits = scale.low <= score <= scale.high and (end is None or float(end) == scale.high)
    return score if fits else None


class ScoringJudge:
    """One judge.

    Args:
        options: `endpoint`, `limits`, `price`, `cache_dir`, as of the provider `judge`.
        block: their place in the config, for errors.
        scale: of its scores.

    Raises:
        ValueError: a bad option; names the config key.
    """

    def __init__(self, options: Mapping[str, Any], block: str, scale: Scale) -> None:
        self.judge = Judge(options, block)
        self._scale = scale

    async def score(self, question: str, text: str, rubric: Sequence[str], seed: int) -> JudgedText:
        """Score and critique of a text. A reply without a score costs a second call.

        Raises:
            GradeUnavailable: none could be had.
        """
        messages = ({"role": "user", "content": score_prompt(question, text, rubric, self._scale)},)
        for again in range(2):
            try:
                reply = await self.judge.complete(Call(messages, seed + again))
            except JudgeUnavailable as error:
                raise GradeUnavailable(error.cause) from None
            answer = without_thoughts(reply.text)
            score = read_score(answer, self._scale)
            if score is not None:
                # The prompt wants the critique before the score.
                before = answer[: list(_SCORE.finditer(answer))[-1].start()]
                return JudgedText(
                    score, parse_reply(before, marker="Critique:", words=WORDS, complete=True).text
                )
            self.judge.note("no_score")
        wanted = f"a number from {self._scale.low:g} to {self._scale.high:g} after `Score:`"
        raise GradeUnavailable(
            f"{self.judge.block}: no score in the reply, twice; {wanted} is read"
        )


def score_prompt(question: str, text: str, rubric: Sequence[str], scale: Scale) -> str:
    """A judge's prompt about a text."""
    question, text = defused(question), defused(text)
    return render(
        "writing/score",
        question=question,
        text=text,
        rubric=list(rubric),
        words=WORDS,
        low=f"{scale.low:g}",
        high=f"{scale.high:g}",
        fence=fence_around([question, text]),
    )
