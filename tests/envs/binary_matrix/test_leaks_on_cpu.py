"""Matrices, rows and cells in prose: found whatever their shape, and only where they are."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.envs.base import FindsCandidates
from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.envs.text.number_words import spell_digits, spell_ordinals
from rltf_verl.feedback.guard import find_leaks
from tests.support.effort import examples

ENV = BinaryMatrix()
PROBLEM = next(
    p for p in ENV.build(3, 60, 0).train if p.data["n"] == 4 and p.data["solution"][0][3] == 3
)
SOLUTION = PROBLEM.data["solution"]  # [[2, 1, 2, 3], [1, 0, 1, 2], [1, 0, 0, 1], [2, 1, 1, 2]]
WRONG = "\\boxed{9 9 9 9\n1 0 1 2\n1 0 0 1\n2 1 1 2}"


def kinds(text: str, attempt: str = WRONG) -> set[str]:
    return {leak.kind for leak in find_leaks(ENV, PROBLEM, text, attempt)}


SEPARATORS = [
    (" ", "\n"),
    (", ", "; "),
    ("", "/"),
    ("", "\n"),
    (" & ", " \\\\ "),
    ("  ", " / "),
    (",", "],["),
    (" then ", ". "),
]


@given(st.sampled_from(SEPARATORS), st.text(max_size=60), st.text(max_size=60), st.booleans())
def test_a_grid_between_any_words_is_found(separators, before, after, in_words):
    cell, row = separators
    names = (
        ["zero", "one", "two", "three"]
        if in_words and cell.strip(" ,") == "" and cell
        else ["0", "1", "2", "3"]
    )
    answer = row.join(cell.join(names[v] for v in r) for r in SOLUTION)
    text = f"{before}\n\n: {answer} :\n\n{after}"
    leaks = [leak for leak in find_leaks(ENV, PROBLEM, text, WRONG) if leak.kind == "answer"]
    if any(c.isalnum() for c in before + after):  # numbers beside it may belong to another reading
        assert leaks
    else:
        start = text.index(answer)
        assert any(leak.start == start and leak.end == start + len(answer) for leak in leaks)


@given(st.text(alphabet=st.sampled_from("0123 \n,;()[]&\\|/=<>rowclumnshuldbeist."), max_size=200))
@examples(300)
def test_no_text_raises_and_every_candidate_lies_in_it(text):
    for candidate in ENV.candidates(PROBLEM, text, WRONG):
        assert 0 <= candidate.start < candidate.end <= len(text)
    for env in (BinaryMatrix(mode="official"), BinaryMatrix(style="compact")):
        find_leaks(env, PROBLEM, text, text)


@given(st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=4, max_size=4))
def test_another_matrix_is_never_the_answer(grid):
    assert ("answer" in kinds(f"It is {grid}.")) == (grid == SOLUTION)


CLAIMS = [
    "({r},{c}) should be {v}",
    "Row {r}, column {c} must be {v}.",
    "Change the 9 at ({r},{c}) to {v}",
    "put {v} at ({r},{c})",
    "The correct value for ({r},{c}) is {v}",
    "cell [{r0}][{c0}] should be {v}",
]


@given(st.sampled_from(CLAIMS), st.integers(1, 4), st.integers(1, 4), st.integers(0, 9))
def test_a_claim_about_a_cell_leaks_if_it_is_right_and_news(claim, r, c, v):
    if "r0" in claim and 1 not in (r, c):
        return  # counted from 0 only where a 0 says so
    text = claim.format(r=r, c=c, v=v, r0=r - 1, c0=c - 1)
    right, had, zero = v == SOLUTION[r - 1][c - 1], r > 1, PROBLEM.data["matrix"][r - 1][c - 1] == 0
    assert kinds(text) == ({"part"} if right and not had and not zero else set())


@pytest.mark.parametrize(
    "text",
    [
        "The 1st row is 2 1 2 3",
        "top row: 2, 1, 2, 3",
        "Row one should read two, one, two, three.",
        "The fourth column is 3, 2, 1, 2",
        "the fourth cell of the first row must be 3",
    ],
)
def test_rows_and_columns(text):
    assert kinds(text) == {"part"}


@pytest.mark.parametrize(
    "text",
    [
        "Row 2 is 1 0 1 2 and was right.",
        "You put 3 at (1,4)",
        "(1,4) is wrong, the output must be a 3 by 3 matrix",
        "Wrong cells: (1,4); (1,3).",
        "(1,4) is too large",
        "Your row 1 was 9 9 9 9",
        "Count 3 steps. Then 2. Then 1.",
    ],
)
def test_what_is_no_news_is_no_leak(text):
    assert kinds(text) == set()


def test_the_questions_own_matrix_may_be_quoted_even_if_it_is_the_answer_too():
    same = next(
        p
        for p in ENV.build(0, 200, 0).train
        if p.data["matrix"] == p.data["solution"] and p.data["n"] == 3
    )
    assert find_leaks(ENV, same, f"The input was {same.data['matrix']}; look again.") == []
    assert find_leaks(ENV, same, f"The correct answer is {same.data['matrix']}.")


def test_the_verifiers_levels_as_the_contract_says():
    grade = ENV.grade(PROBLEM, WRONG)
    for style in ("official", "compact"):
        env = BinaryMatrix(style=style)
        told = {
            level: env.explain(PROBLEM, WRONG, grade, level)
            for level in ("verdict", "location", "hint", "full")
        }
        leaks = {level: bool(find_leaks(env, PROBLEM, text, WRONG)) for level, text in told.items()}
        assert leaks == {"verdict": False, "location": False, "hint": False, "full": True}


@pytest.mark.parametrize(
    "hostile",
    ["1 " * 50_000, "(1,1) " * 20_000, "row 1 " * 20_000, " " * 100_000 + "1", "one " * 30_000],
)
def test_a_hostile_text_takes_no_long_time(hostile):
    start = time.monotonic()
    find_leaks(ENV, PROBLEM, hostile, hostile)
    assert time.monotonic() - start < 40


@given(st.integers(0, 999))
def test_number_words_come_back_as_their_number(value):
    words = spelled(value)
    assert spell_digits(words).split() == [str(value)]
    assert len(spell_digits(words)) == len(words)


TEENS = [
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
UNITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def spelled(value: int) -> str:
    if value >= 100:
        rest = f" and {spelled(value % 100)}" if value % 100 else ""
        return f"{UNITS[value // 100]} hundred{rest}"
    if value < 20:
        return (UNITS + TEENS)[value]
    return TENS[value // 10] + (f"-{UNITS[value % 10]}" if value % 10 else "")


@given(st.text(max_size=200))
def test_reading_words_as_digits_moves_no_character(text):
    assert len(spell_digits(text)) == len(spell_ordinals(text)) == len(text)


def test_the_environment_is_one_that_finds_candidates():
    assert isinstance(ENV, FindsCandidates)
