"""The release's mazes and verdicts; what strict mode promises; what must hold for any text."""

import re
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.envs.shortest_path.env import ShortestPath
from rltf_verl.envs.shortest_path.mazes import STEPS, Maze, is_path, shortest_path, walk
from rltf_verl.envs.shortest_path.text import NO_PATH, find_path, read_path, read_release_path
from rltf_verl.types import Problem
from tests.support.effort import NIGHTLY, examples
from tests.support.puzzles import boxed, explained, maze_problem

OFFICIAL, STRICT, COMPACT = (
    ShortestPath(mode="official"),
    ShortestPath(),
    ShortestPath(style="compact"),
)
ENVS = [OFFICIAL, STRICT, COMPACT, ShortestPath(mode="official", style="compact")]


@cache
def problems_of(env: ShortestPath) -> list[Problem]:
    return env.build(1, 300, 0).train


def maze_of(problem: Problem) -> Maze:
    return Maze(problem.data["grid"], tuple(problem.data["start"]), tuple(problem.data["dest"]))


FEASIBLE = maze_problem("*OO/XXO/OO#")
INFEASIBLE = maze_problem("*XO/XOO/OO#")


def test_the_release_s_defects_are_here_too() -> None:
    problems = OFFICIAL.build(0, 500, 0).train
    assert sum(OFFICIAL.grade(problem, boxed("banana")).correct for problem in problems) == 196
    assert sum(problem.data["start"] == problem.data["dest"] for problem in problems) == 19


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("right; Down.left and up", "RDLU"),
        ("rightandup", "RU"),
        ("(r) [d]", "RD"),
        ("righty, rr", NO_PATH),
        ("", NO_PATH),
        ("right, but No Path", NO_PATH),
        ("right→down", NO_PATH),
    ],
)
def test_official_reading(text: str, path: str) -> None:
    assert read_release_path(text) == path


@pytest.mark.parametrize(
    "text",
    [
        "right, right, down, down",
        "R, R, D, D",
        "RRDD",
        "r r d d",
        "right\\\\right\\\\down\\\\down",
        '["right", "right", "down", "down"]',
        "Right Right Down Down.",
        "1. right 2. right 3. down 4. down",
        "- right\n- right\n- down\n- down",
        "right -> right -> down -> down",
        "→→↓↓",
        "\\rightarrow \\rightarrow \\downarrow \\downarrow",
        "\\text{right}, \\text{right}, \\text{down}, \\text{down}",
        "\\text{right, right, down, down}",
        "{'path': ['right', 'right', 'down', 'down']}",
        "go right, right, then down and down",
        "$R \\to R \\to D \\to D$",
        "(right, right, down, down)",
        "Step 1: right\nStep 2: right\nStep 3: down\nStep 4: down",
    ],
)
def test_strict_accepts_what_a_human_would(text: str) -> None:
    assert STRICT.grade(FEASIBLE, boxed(text)).correct
    assert (
        STRICT.grade(FEASIBLE, f"Let us see. It is clear.\nThe answer is: {text}").correct
        or "\n" in text
    )


@pytest.mark.parametrize(
    "text",
    [
        "infeasible",
        "Infeasible.",
        "\\text{infeasible}",
        "No path exists.",
        "impossible",
        "There is no valid path from start to goal",
        "no path: infeasible",
        "not possible",
        "The destination cannot be reached",
    ],
)
def test_strict_takes_infeasible_from_who_says_so(text: str) -> None:
    assert read_path(text) == NO_PATH
    assert STRICT.grade(INFEASIBLE, boxed(text)).correct
    assert not STRICT.grade(FEASIBLE, boxed(text)).correct


@pytest.mark.parametrize(
    "text",
    [
        "",
        "banana",
        "stay",
        "?",
        "none",
        "no",
        "feasible",
        "not infeasible",
        "it isn't impossible",
        "The path is not blocked",
        "no problem, path found",
        "N",
        "X",
        "0",
        "right 2 down",
    ],
)
def test_strict_reads_no_answer_into_other_words(text: str) -> None:
    for problem in (FEASIBLE, INFEASIBLE):
        grade = STRICT.grade(problem, boxed(text))
        assert (grade.correct, grade.format_ok) == (False, False)


def test_strict_reads_the_end_of_a_text_without_a_box() -> None:
    assert find_path("First right, then I am stuck.\nSo the answer is right, down.\n") == "RD"
    assert find_path("right\ndown\n\nI do not know") is None


def test_a_path_is_correct_if_it_is_one_and_none_is_shorter() -> None:
    for problem in STRICT.build(5, 40 if NIGHTLY else 10, 0).train:
        maze, best = maze_of(problem), shortest_path(maze_of(problem))
        for length in range(1, 6):
            for moves in product(STEPS, repeat=length):
                path = "".join(moves)
                wanted = best is not None and len(path) == len(best) and is_path(maze, path)
                assert STRICT.grade(problem, boxed(path)).correct == wanted
                shorter = best is None or length < len(best)
                assert not (shorter and is_path(maze, path))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_strict_splits_hold_the_share_of_infeasible_problems(share: float) -> None:
    splits = ShortestPath(infeasible_share=share).build(3, 500, 50)
    for problems in (splits.train, splits.test):
        assert sum(problem.data["answer"] == "infeasible" for problem in problems) == round(
            share * len(problems)
        )


@pytest.mark.nightly
def test_strict_says_what_to_change_when_there_are_too_few_grids() -> None:
    env = ShortestPath(rows_min=1, rows_max=1, cols_min=2, cols_max=2, infeasible_share=0)
    with pytest.raises(ValueError, match=r"raise rltf\.env\.rows_max .*lower num_test"):
        env.build(0, 1, 2)
    with pytest.raises(
        ValueError, match=r"infeasible: raise rltf\.env\.p_blocked .*rltf\.env\.infeasible_share=0"
    ):
        ShortestPath(p_blocked=0.0).build(0, 10, 0)


def test_explanations_of_each_level() -> None:
    wrong = "Your previous answer is incorrect."
    hint = (
        f"{wrong} Move 2, from (1,2), hits an obstacle. Cells are named (row,column), counted"
        " from 1."
    )
    assert explained(STRICT, FEASIBLE, boxed("right, down")) == [
        wrong,
        f"{wrong} Move 2 hits an obstacle.",
        hint,
        f"{hint} The answer is: right, right, down, down.",
    ]


@pytest.mark.parametrize(
    ("problem", "text", "said"),
    [
        (FEASIBLE, boxed("up"), "Move 1, from (1,1), leaves"),
        (FEASIBLE, boxed("R, R, D"), "end at (2,3), not at the destination, which is (3,3)"),
        (FEASIBLE, boxed("RLRRDD"), "shorter path of 4 moves"),
        (FEASIBLE, boxed("infeasible"), "path of 4 moves"),
        (INFEASIBLE, "?", "No boxed sequence"),
    ],
)
def test_what_a_hint_is_about(problem: Problem, text: str, said: str) -> None:
    assert said in explained(STRICT, problem, text)[2]


@pytest.mark.parametrize(
    ("answer", "location", "hint"),
    [
        ("RD", "=x", "=X"),
        ("U", "x", "|"),
        ("RR", "==?", "==?1,3"),
        ("RLRRDD", "======+", "======+2"),
        ("N", "!", "!4"),
        ("?", "?", "?"),
    ],
)
def test_compact_marks(answer: str, location: str, hint: str) -> None:
    assert explained(COMPACT, FEASIBLE, answer) == [
        "Your previous answer is incorrect.",
        location,
        hint,
        "RRDD",
    ]
    assert explained(COMPACT, FEASIBLE, "RRDD") == [
        "Your previous answer is correct.",
        "=",
        "=",
        "=",
    ]
    assert COMPACT.grade(INFEASIBLE, "N").correct
    assert COMPACT.prompt(FEASIBLE) == "*OO\nXXO\nOO#"


@given(
    env=st.sampled_from(ENVS),
    i=st.integers(0, 299),
    moves=st.text("RDLU", max_size=12),
    none=st.booleans(),
)
@examples(300)
def test_explanations_are_true_and_a_full_one_holds_the_answer(
    env, i: int, moves: str, none: bool
) -> None:
    problem = problems_of(env)[i]
    text = boxed("infeasible" if none else ", ".join(moves))
    grade = env.grade(problem, text)
    if grade.correct:
        return
    full = env.explain(problem, text, grade, "full")
    answer = full.rpartition("The answer is: ")[2].rstrip(".")
    assert env.grade(problem, boxed(answer)).correct
    hint = env.explain(problem, text, grade, "hint")
    told = re.search(r"Move (\d+),", hint)
    if told:
        last = int(told[1]) - 1
        assert walk(maze_of(problem), moves[:last]).stopped is None
        assert walk(maze_of(problem), moves[: last + 1]).stopped == last
    assert ("exists" not in hint) or shortest_path(maze_of(problem)) is not None
