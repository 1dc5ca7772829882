"""Dates of a house whose verifier takes in training what is not best: STUDY.md.

Held-out problems are graded as `HouseStyle` grades them, so a validation shows what was learnt of
the house's own form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal
from zlib import crc32

from house_style import CORRECT, DATE, HouseStyle, Rule, entry_feedback

from rltf_verl.envs.base import FeedbackLevel, Splits
from rltf_verl.types import Grade, Problem

Deviation = Literal["form", "tag", "fault", "sign"]
TAG = re.compile(r" \[[a-z]\d\]$")
OTHER_YEAR: Mapping[str, str] = {"1998": "98", "98": "1998"}
SIGNS = (*DATE.of_houses, "=")


class Accepted(HouseStyle):
    """The environment `accepted`.

    Args:
        deviation: `form`: half of the training problems also take a date with the other form of the
            year, and three of four examples in the feedback have it. `tag`: half of the examples
            end with a tag of theirs, and the grader leaves out a tag at the end of an answer.
            `fault`: as `form`, and feedback finds fault with every answer, with a right one too.
            `sign`: half of the examples have a sign between the parts that is the problem's own,
            and the problem takes that one too.
        num_houses: as of `HouseStyle`.
    """

    name = "accepted"

    def __init__(self, deviation: Deviation = "form", num_houses: int = 1) -> None:
        super().__init__("date", num_houses=num_houses)
        self._deviation = deviation

    def build(self, seed: int, num_train: int, num_test: int) -> Splits:
        """As of `HouseStyle`; held-out problems are marked."""
        splits = super().build(seed, num_train, num_test)
        marked = (replace(one, data={**one.data, "exact": True}) for one in splits.test)
        return Splits(splits.train, tuple(marked))

    def grade(self, problem: Problem, text: str) -> Grade:
        """Exact on held-out problems."""
        if problem.data.get("exact"):
            return super().grade(problem, text)
        if self._deviation == "tag":
            return super().grade(problem, TAG.sub("", text.strip()))
        grade = super().grade(problem, text)
        is_other = grade.parsed == DATE.written(problem.data["item"], self._other_rule(problem))
        taken = is_other and (self._deviation == "sign" or draw(problem, "taken", 2) == 0)
        return replace(grade, correct=grade.correct or taken)

    def explain(self, problem: Problem, text: str, grade: Grade, level: FeedbackLevel) -> str:
        """As of `HouseStyle`, with the deviation in its examples."""
        if grade.correct and self._deviation != "fault":
            return CORRECT
        data = problem.data
        rule, tag, rng = data["rule"], "", self._rng(problem, text)
        if self._deviation != "tag":
            sides = 2 if self._deviation == "sign" else 4
            rule = self._other_rule(problem) if draw(problem, "example", sides) else rule
        elif draw(problem, "tagged", 2):
            tag = f" [{rng.choice('bdfkmprt')}{rng.randrange(10)}]"
        said = grade.parsed or ""
        return entry_feedback(rng, data["house"], "date", data["item"], rule, said, level, tag)

    def _other_rule(self, problem: Problem) -> Rule:
        """The rule that is not the house's."""
        rule: Rule = problem.data["rule"]
        if self._deviation != "sign":
            return other_form(rule)
        signs = [sign for sign in SIGNS if sign != rule["between"]]
        return {**rule, "between": signs[draw(problem, "sign", len(signs))]}


def other_form(rule: Rule) -> dict[str, Any]:
    """The rule with the other form of the year."""
    return {**rule, "year": OTHER_YEAR[rule["year"]]}


def draw(problem: Problem, what: str, sides: int) -> int:
    """A die that falls alike whenever it is asked about a problem."""
    return crc32(f"{what} {problem.data['question']}".encode()) % sides
