"""What is the same answer, and where a text holds one, in environments that have no parser for
prose.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.envs.text.number_words import as_number
from rltf_verl.feedback.guard import find_leaks
from rltf_verl.feedback.guard.equality import find_reference, same_answer, tokens_of
from rltf_verl.feedback.guard.spans import answer_spans
from rltf_verl.types import Problem
from tests.support.feedback_fakes import Sums, asked


@pytest.mark.parametrize(
    "text",
    [
        "42",
        "The answer is 42.",
        "the answer is 42, not 41",
        "Answer: 42",
        "It is \\boxed{42}",
        "You should have got **42** here",
        'Write "42".',
        "Use $42$ instead",
        "The result should be forty-two.",
        "the answer is simply 42 because 6 times 7 is",
        "Think again.\n42",
        "final value = 42.0",
        "The solution is 42!",
        "The answer is not 41, the answer is 42",
    ],
)
def test_direct_statements_are_found(text):
    leaks = find_leaks(Sums(), asked().problem, text)
    assert leaks
    assert all(any(c.isalnum() for c in text[leak.start : leak.end]) for leak in leaks)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Carry the one.",
        "You wrote 41; 6 times 7 is a bit more than 40.",
        "The answer is not 41.",
        "You have 42 words in your answer, which is too long.",
        "Line 42 of your work is wrong. Check it.",
        "6 times 7 is not 6 plus 7, which is 13.",
        "The answer is even.",
        "answer = 420",
        "The value is 4 or 2.",
    ],
)
def test_innocent_texts_pass(text):
    assert find_leaks(Sums(), asked().problem, text) == []


@pytest.mark.parametrize(
    ("passage", "reference", "same"),
    [
        ("1,000", "1000", True),
        ("50%", "0.5", True),
        ("\\frac{1}{2}", "0.5", True),
        ("$-3.50$", "-3.5", True),
        ("two hundred and six", "206", True),
        ("Zoey is a KNIGHT", "zoey is a knight", True),
        ("(a, b)", "[a; b]", True),
        ("+7", "7", True),
        (".5", "1/2", True),
        ("4 2", "42", False),
        ("x=3", "3", False),
        ("-3", "3", False),
        ("", "", False),
        ("b, a", "a, b", False),
    ],
)
def test_the_same_in_another_spelling(passage: str, reference: str, same: bool):
    assert same_answer(passage, reference) == same


@given(st.fractions(max_denominator=1000))
def test_a_fraction_is_read_as_it_is_written(value: Fraction):
    assert as_number(str(value)) == value


@given(st.integers(-(10**9), 10**9))
def test_a_number_with_thousands_separators(value: int):
    assert as_number(f"{value:,}") == value


@given(st.text(max_size=300))
def test_any_text_has_candidates_inside_it(text: str):
    assert all(0 <= start < end <= len(text) for start, end in answer_spans(text))
    as_number(text)
    tokens_of(text)


LONG = Problem("sums", 0, {}, "Zoey is a knight, Ann is a knave and Bob is a knight")


def test_a_long_reference_is_found_in_the_middle_of_a_sentence():
    text = "I think that ZOEY is a knight; Ann is a knave, and Bob is a knight. Recheck."
    assert find_reference(text, LONG.reference) is not None
    leak, *_ = find_leaks(Sums(), LONG, text)
    assert text[leak.start : leak.end] == "ZOEY is a knight; Ann is a knave, and Bob is a knight"
    assert (
        find_reference("Zoey is a knight, Ann is a knight and Bob is a knight", LONG.reference)
        is None
    )
    assert find_reference("a 3 somewhere", "3") is None, "too short to be a copy"
