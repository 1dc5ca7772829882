"""Aim of feedback, by hand; the control has the same share of any other group's words."""

from typing import Any

import pytest

from tests.recipes import house_style  # noqa: F401  # so that it can be imported
from tests.recipes.composing import program

_AIMS = program("pretrained/aims.py")
aims, aims_of = _AIMS.aims, _AIMS.aims_of
QUESTION = "What is the sum of all primes?"


def episode(text: str, feedback: str | None, correct: bool = False, uid: str = "a") -> Any:
    given = None if feedback is None else {"text": feedback}
    grade = {"correct": correct, "parsed": text}
    turn = {"text": text, "feedback": given, "grade": grade, "stop": None}
    return {"step": 1, "uid": uid, "question": QUESTION, "turns": [turn]}


def test_words_of_the_own_attempt_and_of_a_siblings() -> None:
    """`nine is`, `is odd` and `nine`, `odd` of seven units; the question has `is`."""
    group = [episode("nine is odd", "Nine is odd, look."), episode("look at four", None)]
    assert aims(group) == [(4 / 6, 1 / 6)]


@pytest.mark.parametrize(
    "group",
    [
        [],
        [episode("x", "no x")],
        [episode("x", "no x"), episode("x", "no x")],
        [episode("x", "no x"), episode("y", "x", correct=True)],
        [episode("x", "What is the sum?"), episode("y", "")],
    ],
    ids=["nobody", "no sibling", "the same answer", "a right answer", "the question's words"],
)
def test_nothing_to_compare(group: list[Any]) -> None:
    assert aims(group) == []


def test_siblings_are_of_the_same_group() -> None:
    records = [episode("x", "no x", uid="a"), episode("y", "no x", uid="b")]
    assert aims_of(records) == []
    assert len(aims_of([*records, episode("y", "no y", uid="a")])) == 2
