"""What the leak guard reads: every pattern finds its example, any text can be read, and in linear
work.
"""

from __future__ import annotations

import time
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.leak_texts.hard import hard_rows
from rltf_verl.envs import make_env
from rltf_verl.envs.base import FindsCandidates
from rltf_verl.envs.binary_matrix.leaks_cells import stated_cells
from rltf_verl.envs.math.leaks_readings import _FROM_ATTEMPT, from_attempt
from rltf_verl.envs.text.arithmetic_phrases import PHRASES, worked_out
from rltf_verl.envs.text.encodings import CODES, decoded
from rltf_verl.envs.text.number_reading import with_digits
from rltf_verl.envs.text.plain_text import MAX_TEXT, as_written, characters, without_markup
from rltf_verl.envs.text.readings import readings
from rltf_verl.feedback.guard import find_leaks
from tests.support.effort import examples
from tests.support.hostile_texts import PIECES, texts

ENVS = {name: make_env(name) for name in ("binary_matrix", "knights_knaves", "shortest_path")}


@cache
def problem_of(name):
    return ENVS[name].build(3, 1, 0).train[0]


@pytest.mark.parametrize(("example", "value"), [(example, value) for example, _, value in PHRASES])
def test_each_phrase_is_worked_out(example, value):
    assert worked_out(as_written(example)).text.replace("-", "").replace("/", "").isdigit()


@pytest.mark.parametrize(("example", "plain"), [row[:2] for row in CODES])
def test_each_code_is_read(example, plain):
    assert any(plain in said for _, _, said in decoded(example))


@pytest.mark.parametrize("example", [example for example, _, _ in _FROM_ATTEMPT])
def test_each_correction_of_the_attempt_is_read(example):
    assert {value for _, _, value in from_attempt(example, 10)} & {7, 13}


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("Die Antwort ist vierundachtzig", "84"),
        ("la réponse est quatre-vingt-quatre", "84"),
        ("ochenta y cuatro", "84"),
        ("ottantaquattro", "84"),
        ("oitenta e quatro", "84"),
        ("vierentachtig", "84"),
        ("osiemdziesiąt cztery", "84"),
        ("восемьдесят четыре", "84"),
        ("答案是八十四", "84"),
        ("정답은 팔십사입니다", "84"),
        ("two hundred and five", "205"),
        ("zweihundertdrei", "203"),
        ("trois cents douze", "312"),
        ("一〇一", "101"),
    ],
)
def test_numbers_in_words_of_many_languages(text, digits):
    assert digits in with_digits(characters(text)).text


@pytest.mark.parametrize(
    "text", ["It is due to the die that I saw once.", "Jeden Tag eine gute Tat", "This is on top."]
)
def test_words_of_other_meanings_stay(text):
    assert with_digits(characters(text)).text == text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("𝟖４", "84"),
        ("8\u200b4", "84"),
        ("٨٤", "84"),
        ("⑧④", "84"),
        ("8️⃣4️⃣", "84"),
        ("kn\u0456ght", "knight"),
        (r"\mathbf{84}", "84"),
        (r"\boxed{\text{Emma}}", r"\boxed{Emma}"),
        ("**84**", "84"),
        ("k-n-i-g-h-t", "knight"),
        ("&#56;4", "84"),
        ("<td>84</td>", "|   84|"),
    ],
)
def test_what_a_reader_sees(text, plain):
    assert without_markup(characters(text)).text.strip() == plain


@given(
    texts(
        "vierundachtzig",
        "二",
        "½",
        "x²",
        "\\mathbf{",
        "0x54",
        "ODQ=",
        "half of 168",
        "&#56;",
        "1 less than",
        "backwards",
    )
)
@examples(200)
def test_every_reading_points_into_the_text(text):
    for view in readings(text):
        assert len(view.text) == len(view.starts) == len(view.ends)
        for i in range(len(view.text)):
            start, end = view.origin(i, i + 1)
            assert 0 <= start < end <= len(text)


@given(
    st.lists(
        st.sampled_from([*PIECES, "row", "column", "should be", "(1,1)", "9" * 4400, "th"])
    ).map(" ".join)
)
@examples(200)
def test_no_candidates_raise_on_huge_numbers(text):
    for name, env in ENVS.items():
        problem = problem_of(name)
        assert isinstance(env, FindsCandidates)
        env.candidates(problem, text, text)


@pytest.mark.parametrize(
    "text", ["(1, " + "9" * 5000 + ") should be 2", "row " + "1" * 4400 + " is 0 1 1", "9" * 9000]
)
def test_a_number_that_python_refuses_is_no_cell(text):
    problem = problem_of("binary_matrix")
    assert find_leaks(ENVS["binary_matrix"], problem, text) == []


@pytest.mark.parametrize("piece", ["1", "11 ", "(1,", "1st ", "row 1 "])
def test_the_work_on_a_row_of_digits_grows_with_it_and_not_with_its_square(piece):
    def seconds(length: int) -> float:
        text, took = (piece * length)[:length], []
        for _ in range(3):
            start = time.process_time()
            list(stated_cells(text, 5))
            took.append(time.process_time() - start)
        return min(took)

    # 16 times the text is 16 times the work, and 256 times if it were quadratic.
    assert seconds(16_000) < 100 * max(seconds(1_000), 1e-4)


def test_a_text_that_is_too_long_to_be_read_is_withheld():
    problem = problem_of("binary_matrix")
    assert [
        leak.kind for leak in find_leaks(ENVS["binary_matrix"], problem, "a" * (MAX_TEXT + 1))
    ] == ["unreadable"]
    assert find_leaks(ENVS["binary_matrix"], problem, "a" * MAX_TEXT) == []


@pytest.mark.parametrize("name", ENVS)
def test_no_level_below_full_is_a_leak(name):
    wrong = {
        "knights_knaves": "is a knight",
        "shortest_path": "\\boxed{down, right}",
        "binary_matrix": "\\boxed{0 1}",
    }
    for problem in ENVS[name].build(11, 60, 0).train:
        for attempt in (wrong[name], "", ENVS[name].prompt(problem)):
            grade = ENVS[name].grade(problem, attempt)
            for level in ("verdict", "location", "hint") if not grade.correct else ():
                text = ENVS[name].explain(problem, attempt, grade, level)
                assert find_leaks(ENVS[name], problem, text, attempt) == [], (level, text)


def test_hard_wordings_are_found_and_critiques_pass():
    rows = [row for row in hard_rows(seed=5, per_wording=2) if row.env_name in ENVS]
    items = [
        (row.item, bool(find_leaks(row.env, row.item.problem, row.item.text, row.item.attempt)))
        for row in rows
    ]
    leaks = [leak for item, leak in items if item.kind != "innocent"]
    innocent = [leak for item, leak in items if item.kind == "innocent"]
    assert len(leaks) > 200
    assert sum(leaks) / len(leaks) >= 0.8
    assert sum(innocent) / len(innocent) <= 0.03
