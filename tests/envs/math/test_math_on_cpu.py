"""`math`: verdicts of a human, hostile answers, and what is said about a wrong one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.envs.base import LEVELS
from rltf_verl.envs.math.env import Math
from rltf_verl.envs.math.sources import SOURCES
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.types import Problem
from tests.support.effort import examples

STRICT, OFFICIAL = (
    Math(timeout_s=30, num_workers=2),
    Math(mode="official", timeout_s=30, num_workers=2),
)
PIECES = [
    "\\boxed{",
    "}",
    "{",
    "\\frac{1}{2}",
    "\\sqrt{",
    "5",
    "(1,2)",
    "x=",
    "\\text{",
    "$",
    "answer: ",
    "\n",
    "\\",
    "∞",
]
texts = st.text(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
LATEX = ("5", "-3", "\\frac{1}{2}", "x+1", "(1,2)", "\\text{Yes}", "[0,1)", "1,000")
references = st.sampled_from(LATEX) | st.text(min_size=1, max_size=12).filter(str.strip)


def problem(reference: str, question: str = "How many?", **data: str) -> Problem:
    return Problem("math", 0, {"question": question, "subset": "own", **data}, reference)


@pytest.mark.parametrize(
    ("reference", "answer", "strict", "official"),
    [
        ("5", "} \\boxed{5}", True, False),
        ("5", "\\boxed{5", True, False),
        ("5", "The answer is 5.", True, False),
        ("5", "**Answer:** 5", True, False),
        ("5", "answer: **5**", True, False),
        ("5", "The answer is 4, no: \\boxed{5}", True, True),
        ("5", "\\boxed{5} or rather \\boxed{6}", False, False),
        ("5", "5", False, False),
        ("5", "\\boxed{5\\text{ cm}}", True, True),
        ("5", "\\boxed{x = 5}", True, True),
        ("1000", "\\boxed{1,000}", True, True),
        ("\\frac{3}{4}", "\\boxed{3/4}", True, True),
        ("(1,2)", "\\boxed{(2,1)}", False, False),
        ("[1,2]", "\\boxed{(1,2)}", False, False),
        ("???", "\\boxed{???}", True, True),
        ("5", "\\boxed{}", False, False),
        ("1 1/2", "\\boxed{11/2}", False, False),
        ("1 1/2", "\\boxed{3/2}", True, False),
        ("1 1/2", "\\boxed{1}", False, True),  # math-verify stops at the blank
        ("\\frac{4}{11}", "\\boxed{0.\\overline{36}}", True, False),
        ("0.\\overline{36}", "\\boxed{0}", False, True),  # and at the line
        ("0.\\overline{36}", "\\boxed{0.\\overline{45}}", False, True),
        ("\\frac{1}{6}", "\\boxed{0.1(6)}", True, False),
        ("\\frac{-7}{6}", "\\boxed{-1.1\\dot6}", True, False),
        ("-\\frac{1}{6}", "\\boxed{-0.1(6)}", True, False),
        ("3:4:5", "\\boxed{6 : 8 : 10}", True, False),
        ("3:4:5", "\\boxed{3:5:4}", False, True),  # quotients
        ("(-\\infty,3)", "\\boxed{x<3}", True, True),
        ("5", "\\boxed{x<5}", False, False),
        ("12", "\\boxed{1 2}", False, False),
        ("10000", "\\boxed{10 000}", True, False),
        ("1234567", "\\boxed{1\\,234\\,567}", True, False),
        ("1,\\!234", "\\boxed{1{,}234}", True, True),
        ("1234", "\\boxed{12\\,34}", False, False),
        ("x + 1", "\\boxed{x+1}", True, True),
        ("Celia", "\\boxed{Alice}", False, True),  # a product of the same letters
        ("Alice", "\\boxed{alice}", True, True),
        ("ba", "\\boxed{ab}", True, True),
        ("2", "\\boxed{2√3}", False, True),  # math-verify stops at the sign
        ("2\\sqrt{3}", "\\boxed{2√3}", True, False),
        ("32", "\\boxed{2⁵}", True, False),
        ("\\frac{1}{2}", "\\boxed{½}", True, False),
        ("5", "The answer is\n\\[\n5\n\\]", True, False),
        ("5", "**Answer**: `5`", True, False),
        ("\\text{June 20}", "\\boxed{June 20}", True, False),
        ("\\text{9:03 PM}", "\\boxed{9:03 p.m.}", True, False),
        ("\\text{9:03 PM}", "\\boxed{9:03 AM}", False, False),
        ("9:03", "\\boxed{3}", False, True),  # a quotient
        ("42", "\\boxed{x = 42}", True, True),
        ("42", "\\boxed{41 = 42}", False, False),
        ("42", "\\boxed{\\neq 42}", False, True),
        ("42", "\\boxed{> 42}", False, True),
        ("5", "The answer is 5.\nI hope this answer is helpful.", True, False),
    ],
)
def test_what_a_human_would_say(reference: str, answer: str, strict: bool, official: bool) -> None:
    assert STRICT.grade(problem(reference), answer).correct == strict
    assert OFFICIAL.grade(problem(reference), answer).correct == official


@pytest.mark.nightly
@pytest.mark.parametrize(
    "hostile",
    [
        "9^{9^{9^{9}}}",
        "10000000000!",
        "\\frac{1}{" * 3000 + "2" + "}" * 3000,
        "{" * 100_000 + "}" * 100_000,
        "(" * 3000 + "1" + ")" * 3000,
        "\\int_0^1 e^{x^{x^{x}}}dx",
        "__import__('os').abort()",
    ],
    ids=lambda text: text[:20],
)
def test_hostile_answers_are_wrong_in_time_and_the_next_is_graded(hostile: str) -> None:
    env = Math(timeout_s=0.5, num_workers=1)
    assert not env.grade(problem("\\sqrt{2}"), f"\\boxed{{{hostile}}}").correct
    assert (
        Math(timeout_s=60, num_workers=1).grade(problem("\\sqrt{8}"), "\\boxed{2\\sqrt{2}}").correct
    )


def test_a_comparison_that_takes_too_long_is_told() -> None:
    answer, right = "\\boxed{9^{9^{9^{9}}}}", "\\boxed{2\\sqrt{2}}"
    grade = Math(timeout_s=0.5, num_workers=1).grade(problem("\\sqrt{2}"), answer)
    assert (grade.correct, grade.format_ok, grade.parsed) == (False, True, "9^{9^{9^{9}}}")
    assert grade.error == "comparing answers: no verdict within 0.5 s"
    assert Math(timeout_s=60, num_workers=1).grade(problem("\\sqrt{8}"), right).correct, "the next"


@examples(60)
@given(
    reference=references,
    text=texts,
    level=st.sampled_from(LEVELS),
    env=st.sampled_from([STRICT, OFFICIAL]),
)
def test_any_text_is_graded_and_explained(reference: str, text: str, level: str, env: Math) -> None:
    asked = problem(reference)
    grade = env.grade(asked, text)
    assert env.explain(asked, text, grade, level)
    assert json.loads(json.dumps(dict(grade.details))) == grade.details
    for leak in find_leaks(env, asked, text):
        assert 0 <= leak.start < leak.end <= len(text)


@examples(60)
@given(reference=references.filter(lambda text: not set(text) & set("{}\\") or text in LATEX))
def test_the_reference_is_correct(reference: str) -> None:
    assert STRICT.grade(problem(reference), f"\\boxed{{{reference}}}").correct


@pytest.mark.parametrize(
    ("reference", "answer", "location", "hint"),
    [
        ("7", "I do not know", "No answer was found in \\boxed{}.", ""),
        (
            "7",
            "\\boxed{8}",
            "Your answer was read as 8.",
            "It is a whole number, as it should be, but not the right",
        ),
        (
            "7",
            "\\boxed{1/2}",
            "Your answer was read as 1/2.",
            "should be a whole number, and yours is a number that is",
        ),
        (
            "\\frac{1}{2}",
            "\\boxed{3}",
            "read as 3.",
            "should be a number that is not whole, and yours is a whole number",
        ),
        (
            "(1,2,3)",
            "\\boxed{(1,2,4,5)}",
            "read as (1,2,4,5).",
            "should be a tuple of 3 values, and yours is a tuple of 4",
        ),
        ("[0,1]", "\\boxed{6}", "read as 6.", "should be an interval, and yours is a whole number"),
        ("(1,2)", "\\boxed{6}", "read as 6.", "should be a pair or an open interval"),
        (
            "x+1",
            "\\boxed{6}",
            "read as 6.",
            "should be an expression with letters, and yours is a whole number",
        ),
        (  # the B is the answer
            "\\textbf{(B)}\\ 5",
            "\\boxed{6}",
            "read as 6.",
            "should be an expression with letters, and yours is a whole number",
        ),
        (
            "\\text{Yes}",
            "\\boxed{6}",
            "read as 6.",
            "should be a word, and yours is a whole number",
        ),
        ("\\text{June 20}", "\\boxed{6}", "read as 6.", "should be words, and yours is a whole"),
        (
            "2\\pi",
            "\\boxed{\\pi}",
            "read as \\pi.",
            "It is an expression of numbers, as it should be",
        ),
        (
            "7",
            "\\boxed{\\sqrt{2}}",
            "read as \\sqrt{2}.",
            "should be a whole number, and yours is an expression of numbers",
        ),
        ("7", "\\boxed{x=y}", "read as x=y.", "should be a whole number, and yours is an equation"),
        ("7", "\\boxed{}", "could not be read as mathematics", "should be a whole number."),
    ],
)
def test_explanations(reference: str, answer: str, location: str, hint: str) -> None:
    asked = problem(reference)
    grade = STRICT.grade(asked, answer)
    told = {level: STRICT.explain(asked, answer, grade, level) for level in LEVELS}
    assert told["verdict"] == "Your previous answer is incorrect."
    assert location in told["location"]
    assert told["location"] in told["hint"]
    assert hint in told["hint"]
    assert told["full"].endswith(f"The answer is {reference}.")
    assert all(reference not in told[level].replace(answer, "") for level in LEVELS[:-1])


@pytest.mark.parametrize(
    ("reference", "text", "leaks"),
    [
        ("42", "The answer is forty-two.", True),
        ("42", "Your sum lacks the last term; with it you get $42$.", True),
        ("42", "Look at 42 again.", True),
        ("3", "Look at step 3 again, there are 3 errors.", False),
        ("3", "It should be 3.", True),
        ("3", "**Step 3:** check the sign.", False),
        ("3", "3. Check the sum", False),
        ("3", "**Step 3:** it is 3", True),
        ("3", "3", True),
        ("12", "You started with 12 apples. Recount.", False),
        ("12", "You started with 12 apples, and the result is 12.", True),
        ("\\frac{1}{2}", "You forgot to halve: it equals 0.5 here.", True),
        ("\\frac{3}{7}", "The answer is 3 over 7.", True),
        ("\\frac{3}{7}", "Fill \\dfrac{3}{7} of it, no more.", True),
        ("3/7", "Fill -\\frac{3}{7} of it, or \\frac{7}{3}.", False),
        ("7", "So, I think, 7 is the correct final answer.", True),
        ("7", "See whether what step 7 is the result of holds.", False),
        ("7", "Seven is not the answer to this.", False),
        ("C", "Option C is correct, because it halves.", True),
        ("7", "The pattern 1, 7 is right.", False),
        ("7", "There are 7, not 8.", True),
        ("0", "Setting the derivative equal to zero is correct.", False),
        ("0", "Dividing by 0 is not allowed.", False),
        ("15", "So far $3 + 5 = 15.$", True),
        ("-\\frac{3}{7}", "You want minus three sevenths.", True),
        ("\\frac{3}{7}", "You want 7 over 3, or three sevens.", False),
        ("-3", "The sum should be $-3$.", True),
        ("-3", "The sum should be \N{MINUS SIGN}3.", True),
        ("-3", "The sum should be $3$.", False),
        ("-3", "It should be negative three.", True),
        ("3", "It should be minus three.", False),
        ("3.5", "The sum is three point five.", True),
        ("1/3", "It is a third of that.", True),
        ("2/3", "It is 2 thirds of that.", True),
        ("2.5", "It should be two and a half.", True),
        ("5/2", "Write 2 1/2 there.", True),
        ("1/2", "You took $2\\frac{1}{2}$ of it.", False),
        ("5/2", "Write $2\\frac{1}{2}$ there.", True),
        ("2\\frac{1}{2}", "It is not 10.5 there.", False),
        ("2/3", "See row 2 third column.", False),
        ("1, 2", "The roots are one and two.", True),
        ("1,200", "That is twelve hundred metres.", True),
        ("2500000", "The town has 2.5 million inhabitants.", True),
        ("2500001", "It is two million, five hundred thousand and one.", True),
        ("x+1", "Try $1+x$ instead.", True),
        ("x+1", "You have \\(x+2\\), so factor again.", False),
        ("[0,1)", "What about $[0,1)$?", True),
        ("\\text{Yes}", "The answer is yes.", True),
        ("5", "\\boxed{5}", True),
        ("5", "Your work is fine up to the second line. Mind the sign.", False),
        ("1,000", "Is 1000 not enough?", True),
        ("90^\\circ", "The angle that you want should be 90 degrees.", True),
        ("90^\\circ", "The angle should be larger than 45 degrees.", False),
        ("\\$18", "She should make $18 a day.", True),
        ("15\\text{ cm}", "The side should be 15 cm long.", True),
        ("15\\text{ cm}^2", "The area should be $15$.", True),
        ("\\text{Evelyn}", "The student with the greatest speed is another.", False),
        ("10,\\!236", "The total should be 10236.", True),
        ("C", "The correct option is (C).", True),
        ("\\text{(C)}", "Choose option **C** instead.", True),
        ("C", "Choose A, B or C by what you found. Option B is too small; it is Carl's.", False),
    ],
)
@pytest.mark.parametrize("env", [STRICT, OFFICIAL], ids=["strict", "official"])
def test_leaks(env: Math, reference: str, text: str, leaks: bool) -> None:
    assert bool(find_leaks(env, problem(reference, "There are 12 apples."), text)) is leaks


def test_the_release_s_table() -> None:
    assert {
        name: source.test_sets
        for name, source in SOURCES.items()
        if source.test_sets != ("math500", "aime2024")
    } == {"deepmath_hard": ("beyondaime",), "deepscaler": ("beyondaime",)}
