"""What the leak guard finds in texts about the puzzles: leaks in plain English, nothing else."""

import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.envs.knights_knaves.env import KnightsKnaves
from rltf_verl.envs.shortest_path.env import ShortestPath
from rltf_verl.envs.text.plain_text import MAX_TEXT, readings
from rltf_verl.feedback.guard.find import find_leaks
from rltf_verl.types import Problem
from tests.support.effort import examples, many
from tests.support.puzzles import maze_problem

MATRIX = BinaryMatrix()
SOLUTION = [[2, 1, 2, 3], [1, 0, 1, 2], [1, 0, 0, 1], [2, 1, 1, 2]]
GRID = Problem(
    "binary_matrix",
    0,
    {
        "matrix": [[1, 1, 1, 1], [1, 0, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1]],
        "solution": SOLUTION,
        "n": 4,
    },
    "",
)
ROLES: dict[str, Any] = {
    "names": ["Emma", "Noah", "Mia"],
    "roles": ["a knight", "a knave"],
    "statements": [["lying", 1], ["lying", 0], ["telling-truth", 0]],
    "solution": [True, False, True],
    "solution_text": "",
    "quiz": 'Emma said, "Noah is a knave". According to Noah, "Emma is a knave".',
}
WHO = Problem("knights_knaves", 0, ROLES, "Emma is a knight, Noah is a knave, and Mia is a knight.")


WRONG: dict[str, tuple[Any, Problem, str]] = {
    "matrix": (MATRIX, GRID, "\\boxed{9 9 9 9\n1 0 1 2\n1 0 0 1\n2 1 1 2}"),
    "roles": (
        KnightsKnaves(),
        WHO,
        "\\boxed{Emma is a knave, Noah is a knave, Mia is a knave}",
    ),
    "path": (
        ShortestPath(),
        maze_problem("*OO/XXO/OO#"),
        "\\boxed{right, down}",
    ),
    "near": (ShortestPath(), maze_problem("*#O/XXO/OOO"), "\\boxed{down}"),
    "closed": (ShortestPath(), maze_problem("*XO/XOO/OO#"), "\\boxed{right}"),
}


def kinds(name: str, text: str) -> set[str]:
    env, problem, attempt = WRONG[name]
    return {leak.kind for leak in find_leaks(env, problem, text, attempt)}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("matrix", "The correct grid:\n| 2 | 1 | 2 | 3 |\n| 1 0 1 2\n| 1 0 0 1\n| 2 1 1 2"),
        ("matrix", "From the last cell back to the first: 2112 1001 2101 3212"),
        ("matrix", "By column: 2 1 1 2; 1 0 0 1; 2 1 0 1; 3 2 1 2"),
        ("matrix", "Row one should read two, one, two, three."),
        ("matrix", "The fourth column is 3, 2, 1, 2"),
        ("matrix", "the fourth cell of the first row must be 3"),
        ("matrix", "Change the 9 at (1,4) to **3**"),
        ("roles", "Correct: {'Emma': 'knight', 'Noah': 'knave', 'Mia': 'knight'}"),
        ("roles", "| Emma | knight |\n| Noah | knave |\n| Mia | knight |"),
        ("roles", "Look again: $\\text{Mia} = \\text{knight}$"),
        ("roles", "Emma is not a knave."),
        ("roles", "Noah lies, the others tell the truth."),
        ("roles", "The two knights are Emma and Mia."),
        ("roles", "Flip the roles of Emma and Mia."),
        ("roles", "In order: knight, knave, knight."),
        ("roles", "With 1 for a knight: 101"),
        ("roles", "What Emma says is true."),
        ("path", "Go two steps to the right, then down twice."),
        ("path", "RRDD"),
        ("path", "1. right\n2. right\n3. down\n4. down"),
        ("path", "$\\text{right} \\rightarrow \\text{right} \\to \\text{down} \\to \\text{down}$"),
        ("path", "Seen from the goal the moves were down, down, right, right."),
        ("path", "The cells are (1, 1), (1, 2), (1, 3), (2, 3), (3, 3)."),
        ("near", "The answer is: right"),
        ("near", "right"),
        ("closed", "There is no path to the destination."),
    ],
)
def test_a_plain_statement_is_a_leak(name: str, text: str) -> None:
    assert kinds(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("matrix", "Row 2 is 1 0 1 2 and was right."),
        ("matrix", "You put 3 at (1,4). Count 3 steps. Then 2."),
        ("matrix", "(1,4) is wrong, the output must be a 4 by 4 matrix"),
        ("matrix", "(1, " + "9" * 5000 + ") should be 2"),
        ("roles", ROLES["quiz"]),
        ("roles", "You said that Emma is a knave. Check whether that fits."),
        ("roles", "If Emma is a knight, then Noah is a knave. Is Mia a knight?"),
        ("roles", "Emma says that Noah is a knave. At least one of Emma and Mia is a knight."),
        ("roles", "With your roles, what Emma said is true, but you call Emma a knave."),
        ("roles", "Noah is a knave."),  # as the attempt has it
        ("path", "You may go right, down, left or up."),
        ("path", "You wrote right, down, which ends at (2, 2)."),
        ("near", "Your move down is not right."),
        ("closed", "If there is no path, write infeasible."),
    ],
)
def test_what_is_no_news_is_no_leak(name: str, text: str) -> None:
    assert kinds(name, text) == set()


@given(
    st.sampled_from([(" ", "\n"), (", ", "; "), ("", "/"), (" & ", " \\\\ "), (",", "],[")]),
    st.text(max_size=60),
    st.text(max_size=60),
    st.booleans(),
)
def test_a_grid_between_any_words_is_found(
    separators: tuple[str, str], before: str, after: str, in_words: bool
) -> None:
    cell, row = separators
    values = ["zero", "one", "two", "three"] if in_words and cell else ["0", "1", "2", "3"]
    answer = row.join(cell.join(values[v] for v in r) for r in SOLUTION)
    assert "answer" in kinds("matrix", f"{before}\n\n: {answer} :\n\n{after}")


@given(st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=4, max_size=4))
def test_another_matrix_is_never_the_answer(grid: list[list[int]]) -> None:
    assert ("answer" in kinds("matrix", f"It is {grid}.")) == (grid == SOLUTION)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 9))
def test_a_claim_about_a_cell_leaks_if_it_is_right_and_news(r: int, c: int, v: int) -> None:
    right, news = v == SOLUTION[r - 1][c - 1], r == 1
    assert kinds("matrix", f"({r},{c}) should be {v}") == ({"part"} if right and news else set())


def test_the_questions_own_matrix_may_be_quoted_even_if_it_is_the_answer_too() -> None:
    same = next(p for p in MATRIX.build(0, 200, 0).train if p.data["matrix"] == p.data["solution"])
    assert find_leaks(MATRIX, same, f"The input was {same.data['matrix']}; look again.") == []
    assert find_leaks(MATRIX, same, f"The correct answer is {same.data['matrix']}.")


def check_candidates(text: str) -> None:
    for env, problem, _ in WRONG.values():
        for candidate in env.candidates(problem, text, text):
            assert 0 <= candidate.start < candidate.end <= len(text)


OF_ANSWERS = [
    "\\boxed{",
    "\\boxed ",
    "}",
    "{",
    "\\text{",
    "\\",
    "\\\\",
    "[",
    "]",
    "(",
    ")",
    '"',
    "'",
    ",",
    ";",
    ".",
    ":",
    "|",
    "\n",
    "\r",
    "\x00",
    "\x1c",
    "\u2028",
    "\ufeff",
    "\ud800",
    "→",
    "ß",
    "İ",
    "ı",
    "\U0001f600",
    "9" * 5000,
    "-1",
    "1.",
    "[" * 3000,
    "right",
    "down",
    "up",
    "left",
    "R",
    "rdlu",
    "infeasible",
    "no path",
    "not",
    "and",
    "or",
    "is",
    "a",
    "knight",
    "knaves",
    "Emma",
    "AbC",
    "A",
    "None",
    "null",
    "NaN",
    "1e999",
    "__import__('os')",
    "if",
    "=",
    " " * 2000,
    "RRDD" * 500,
]


@given(
    st.text()
    | st.lists(
        st.sampled_from([*OF_ANSWERS, "Noah is a knave", "right x 9", "row", "(1,1)", "9" * 4400])
    ).map(" ".join)
)
@examples(200)
def test_every_candidate_and_reading_points_into_the_text(text: str) -> None:
    check_candidates(text)
    for view in readings(text):
        assert len(view.text) == len(view.starts) == len(view.ends)
        assert all(0 <= a < b <= len(text) for a, b in zip(view.starts, view.ends, strict=True))


def test_hostile_texts_raise_nothing() -> None:
    rng, pieces = random.Random(0), [*OF_ANSWERS, "Noah", "must be", "(1,", "row 1"]
    for _ in range(many(1000)):
        parts = [rng.choice(pieces) + rng.choice(["", " "]) for _ in range(rng.randint(0, 12))]
        check_candidates("".join(parts))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("𝟖４ 8\u200b4 ٨٤ ⑧④", "84 84 84 84"),
        (r"\mathbf{84} **84** <td>84</td>", "84 84 84"),
        ("forty-two, the second, two thousand and five", "42, the 2nd, 2005"),
        ("It is due once more.", "It is due once more."),
    ],
)
def test_what_a_reader_sees(text: str, plain: str) -> None:
    assert " ".join(readings(text)[-1].text.split()) == plain


def test_a_text_that_is_too_long_to_be_read_is_withheld() -> None:
    assert [leak.kind for leak in find_leaks(MATRIX, GRID, "a" * (MAX_TEXT + 1))] == ["unreadable"]
    assert find_leaks(MATRIX, GRID, "a" * MAX_TEXT) == []


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "Emma ",
            "Emma, ",
            "Emma is ",
            "Emma's role ",
            "knight ",
            "knight: ",
            "right ",
            "1. ",
            "+",
        ),
        *("hundred ", " ", "no ", "not ", "RD", ": ", "is ", "3 steps ", "1 ", "(1,1)", "(1,1) "),
        *(
            "row 1 ",
            "1,",
            "one ",
            "1st ",
            "\\frac{",
            "**",
            "$",
            '"',
            "answer is ",
            "11 ",
            "9",
            "everyone ",
        ),
    ],
)
def test_no_repetition_takes_long(piece: str) -> None:
    """A quadratic expression takes seconds or minutes on so long a text."""
    text = (piece * MAX_TEXT)[:MAX_TEXT]
    start = time.process_time()
    for env, problem, _ in WRONG.values():
        find_leaks(env, problem, text, text)
    assert time.process_time() - start < 20
