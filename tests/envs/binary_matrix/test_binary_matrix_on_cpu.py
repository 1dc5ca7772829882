"""Forms of an answer that are read, and what must hold for any of them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.envs import make_env
from rltf_verl.envs.binary_matrix.env import BinaryMatrix
from rltf_verl.types import Problem
from tests.support.effort import examples
from tests.support.puzzles import boxed, explained

FIXES = re.compile(r"\((\d+),(\d+)\) should be (\d+)")

envs = st.sampled_from(
    [BinaryMatrix(), BinaryMatrix(style="compact"), BinaryMatrix(mode="official")]
)


def problem_of(solution: list[list[int]]) -> Problem:
    data = {"matrix": solution, "solution": solution, "n": len(solution)}
    return Problem("binary_matrix", 0, data, lines_of(solution))


def lines_of(grid: list[list[int]]) -> str:
    return "\n".join(" ".join(map(str, row)) for row in grid)


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{0 1 1\n1 2 0\n0 1 1}",
        "\\boxed{011\n120\n011}",
        "\\boxed{0,1,1\n1,2,0\n0,1,1}",
        "\\boxed{0 1 1; 1 2 0; 0 1 1}",
        "\\boxed{[[0, 1, 1], [1, 2, 0], [0, 1, 1]]}",
        "\\boxed{((0,1,1),(1,2,0),(0,1,1))}",
        "\\boxed{[0, 1, 1, 1, 2, 0, 0, 1, 1]}",
        "\\boxed{0 1 1 1 2 0 0 1 1}",
        "\\boxed{011120011}",
        "\\boxed{\\begin{bmatrix} 0 & 1 & 1 \\\\ 1 & 2 & 0 \\\\ 0 & 1 & 1 \\end{bmatrix}}",
        "$$\\boxed{\\begin{array}{c|cc}0&1&1\\\\\n1&2&0\\\\\n0&1&1\\\\\\end{array}}$$",
        "} \\boxed{9} so \\boxed{ \n 0 1 1 \n\n 1 2 0 \r\n 0 1 1 \n }",
        "The cell next to 2 is 1.\n0 1 1\n1 2 0\n0 1 1\nThat took 3 steps.",
        "I get [[0, 1, 1], [1, 2, 0], [0, 1, 1]].",
        "\\boxed{\\begin{matrix} 0 & 1 & 1 \\\\[4pt] 1 & 2 & 0 \\\\ [4pt] 0 & 1 & 1 \\end{matrix}}",
        "\\boxed{\n| 0 | 1 | 1 |\n|---|:-:|---|\n| 1 | 2 | 0 |\n| 0 | 1 | 1 |\n}",
        "It is\n\n0 | 1 | 1\n--- | --- | ---\n1 | 2 | 0\n0 | 1 | 1\n",
        "Hence \\[\\begin{pmatrix}0&1&1\\\\1&2&0\\\\0&1&1\\end{pmatrix}\\]",
    ],
)
def test_strict_accepts_what_a_human_would(text: str) -> None:
    grade = BinaryMatrix().grade(problem_of([[0, 1, 1], [1, 2, 0], [0, 1, 1]]), text)
    assert grade.correct
    assert grade.format_ok


@pytest.mark.parametrize(
    ("text", "format_ok"),
    [
        ("\\boxed{0 1\n1 2\n2 3}", True),
        ("\\boxed{0 1 1}", True),
        ("\\boxed{[[0],[1],[1],[2]]}", True),
        ("\\boxed{0 1\n1 x}", True),
        ("0 1\n1 2, or rather \\boxed{1 1\n1 2}", True),
        ("\\boxed{}", False),
        ("\\boxed{two rows}", False),
        ("I do not know.", False),
    ],
)
def test_strict_refuses(text: str, format_ok: bool) -> None:
    grade = BinaryMatrix().grade(problem_of([[0, 1], [1, 2]]), text)
    assert (grade.correct, grade.format_ok) == (False, format_ok)


def test_explanations_of_each_level() -> None:
    problem = problem_of([[0, 1, 1], [1, 2, 0], [0, 1, 1]])
    text = "\\boxed{001\n1x0\n019}"
    cells = (
        "Your previous answer is incorrect. Cells are named (row,column), counted from 1. Wrong"
        " cells: "
    )
    assert explained(BinaryMatrix(), problem, text) == [
        "Your previous answer is incorrect.",
        f"{cells}(1,2); (2,2); (3,3).",
        f"{cells}(1,2) is too small; (2,2) is not a whole number; (3,3) is too large.",
        f"{cells}(1,2) should be 1; (2,2) should be 2; (3,3) should be 1.",
    ]
    assert explained(BinaryMatrix(style="compact"), problem, text) == [
        "Your previous answer is incorrect.",
        "=x=/=x=/==x",
        "=<=/=?=/==>",
        "=0<1=1/=1?2=0/=0=1>1",
    ]


@pytest.mark.parametrize(
    ("mode", "text", "said"),
    [
        ("strict", "no idea", "No matrix was found in \\boxed{}."),
        ("strict", "\\boxed{0 1}", "The answer is not a 2 by 2 matrix."),
        ("official", "0 1\n1 2", "No matrix was found in \\boxed{}."),
        ("official", "\\boxed{[[0, 1]] + [[1, 2]]}", "The answer is not a 2 by 2 matrix."),
        (
            "official",
            "\\boxed{0,1\n1,2}",
            "All values are right, but write one row per line, with spaces between the numbers.",
        ),
    ],
)
def test_explanations_of_what_cannot_be_compared(mode: str, text: str, said: str) -> None:
    env = make_env("binary_matrix", mode=mode)
    problem = problem_of([[0, 1], [1, 2]])
    assert env.explain(problem, text, env.grade(problem, text), "hint").endswith(f" {said}")


@st.composite
def answers(draw: st.DrawFn) -> tuple[BinaryMatrix, Problem, list[list[int]]]:
    """An n×n answer, some cells of which are right."""
    env = draw(envs)
    problem = env.build(draw(st.integers(0, 99)), 1, 0).train[0]
    cell = st.integers(0, 12)
    return (
        env,
        problem,
        [[draw(st.just(v) | cell) for v in row] for row in problem.data["solution"]],
    )


def _fixes(told: str) -> list[tuple[int, int, int]]:
    """What a full explanation says should change, as (row, column, value) from 0, in either
    style.
    """
    if "/" not in told:
        return [(int(r) - 1, int(c) - 1, int(v)) for r, c, v in FIXES.findall(told)]
    marks = [re.findall(r"([=<>?])(\d+)", row) for row in told.split("/")]
    return [
        (r, c, int(value))
        for r, row in enumerate(marks)
        for c, (sign, value) in enumerate(row)
        if sign != "="
    ]


@given(case=answers())
@examples(60)
def test_a_full_explanation_applied_is_the_answer(
    case: tuple[BinaryMatrix, Problem, list[list[int]]],
) -> None:
    env, problem, grid = case
    text = boxed(lines_of(grid))
    for r, c, value in _fixes(env.explain(problem, text, env.grade(problem, text), "full")):
        assert grid[r][c] != value, "a right cell is called wrong"
        grid[r][c] = value
    assert env.grade(problem, boxed(lines_of(grid))).correct


@pytest.mark.parametrize("text", ["", "\\boxed{0 1}", "\\boxed{} } {"])
@pytest.mark.parametrize("mode", ["official", "strict"])
def test_a_full_explanation_of_no_answer_holds_every_cell(mode: str, text: str) -> None:
    env = make_env("binary_matrix", mode=mode)
    problem = problem_of([[0, 1], [1, 2]])
    told = env.explain(problem, text, env.grade(problem, text), "full")
    assert FIXES.findall(told) == [
        ("1", "1", "0"),
        ("1", "2", "1"),
        ("2", "1", "1"),
        ("2", "2", "2"),
    ]


def test_strict_keeps_small_sizes_for_training() -> None:
    env = BinaryMatrix(n_min=3, n_max=3)
    assert len(env.build(0, 50, 255).test) == 255
    with pytest.raises(
        ValueError,
        match=r"num_test=256 .*255 .*rltf\.env\.n_min",
    ):
        env.build(0, 50, 256)
