"""What the leak guard sees in texts about knights and knaves and about paths: leaks in any words,
and nothing else.
"""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.envs.base import Env, FindsCandidates
from rltf_verl.envs.knights_knaves.env import KnightsKnaves
from rltf_verl.envs.knights_knaves.leaks_readings import assignments
from rltf_verl.envs.shortest_path.env import ShortestPath
from rltf_verl.feedback.guard import find_leaks
from rltf_verl.types import Problem
from tests.support.effort import examples, many
from tests.support.hostile_texts import hostile_texts, texts

NAMES, ROLES = ["Emma", "Noah", "Mia"], ["a knight", "a knave"]
SAID = [
    ["<=>", ["lying", 1], ["telling-truth", 2]],
    ["lying", 0],
    ["and", ["telling-truth", 0], ["lying", 1]],
]
TEXT = "Emma is a knight, Noah is a knave, and Mia is a knight."
QUIZ = (
    'Emma said, "Noah is a knave if and only if Mia is a knight". According to Noah, "Emma is a'
    ' knave". Mia noted that Emma is a knight and Noah is a knave. (Format your answer like: "Emma'
    ' is a knight/knave, Noah is a knight/knave, and Mia is a knight/knave")'
)
ROLE_DATA = {"names": NAMES, "roles": ROLES, "statements": SAID, "solution": [True, False, True]}
WHO = Problem("knights_knaves", 0, {**ROLE_DATA, "solution_text": TEXT, "quiz": QUIZ}, TEXT)
KNIGHTS = KnightsKnaves()
ATTEMPT = "\\boxed{Emma is a knave, Noah is a knave, Mia is a knave}"  # wrong of Emma and Mia


def grid(rows: str, answer: str) -> Problem:
    cells = [list(row) for row in rows.split("/")]
    place = {cell: [r, c] for r, row in enumerate(cells) for c, cell in enumerate(row)}
    data = {"grid": cells, "start": place["*"], "dest": place["#"], "answer": answer}
    return Problem("shortest_path", 0, data, answer)


PATHS = ShortestPath()
MAZE = grid("*OO/XXO/OO#", "right, right, down, down")
NEAR = grid("*#O/XXO/OOO", "right")
CLOSED = grid("*XO/XOO/OO#", "infeasible")
MOVED = "\\boxed{right, down}"


def kinds(env: Env, problem: Problem, text: str, attempt: str) -> set[str]:
    return {leak.kind for leak in find_leaks(env, problem, text, attempt)}


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "The solution: Mia: knight, Noah: knave, Emma: knight.",
        "You should have found that Emma and Mia are knights, and that Noah is a knave.",
        "Knights: Emma, Mia. Knaves: Noah.",
        'Correct: {"Emma": "knight", "Noah": "knave", "Mia": "knight"}',
        "Emma is truthful, Noah is lying, Mia tells the truth.",
        "- Emma - knight\n- Noah - knave\n- Mia - knight",
        "The knights are Emma and Mia; the only knave is Noah.",
        (
            "Look again. Emma must be a knight. Then Noah has to be a knave. And Mia is actually a"
            " knight too."
        ),
        "| Emma | knight |\n| Noah | knave |\n| Mia | knight |",
    ],
)
def test_whole_solutions(text: str) -> None:
    assert "answer" in kinds(KNIGHTS, WHO, text, ATTEMPT)


@pytest.mark.parametrize(
    "text",
    [
        "Emma is a knight.",
        "Check Mia again: Mia must be a knight.",
        "You called Mia a knave, but Mia is actually a knight",
        "Emma should be a knight, not a knave.",
        "Your answer has Emma as a knave; the correct role: Emma = knight.",
        "Emma is not a knave.",
        "Mia isn't a knave, look at what she says.",
        "Emma always tells the truth.",
        "Start from Emma, who is truthful.",
        "The knights are Emma and someone else.",
        "Both Emma and Mia are knights.",
        "Emma's role is wrong.",
        "The role of Mia is incorrect.",
        "**Emma**: knight",
        "In fact, Emma is not lying.",
        "That makes Emma a knight.",
        "Noah is the only liar.",
        "You mislabelled Emma.",
        "Flip the roles of Emma and Mia.",
        "Swap Emma to knight",
        "Everyone except Noah is a knight",
        "Mia never lies",
        "Emma's statement is true, so Emma is a knight",
        "It is impossible for Emma to be a knave.",
        "Emma can be trusted.",
        "Noah lies, the others tell the truth.",
        "Emma: T",
        "In order: knight, knave, knight.",
    ],
)
def test_a_role_that_the_attempt_had_wrong_is_a_part(text: str) -> None:
    assert "part" in kinds(KNIGHTS, WHO, text, ATTEMPT)


@pytest.mark.parametrize(
    "text",
    [
        QUIZ,
        "You said that Emma is a knave and Noah is a knave. Check whether that fits.",
        "Your answer says Mia is a knave, and that is a contradiction.",
        "If Emma is a knight, then Noah is a knave. Go on from there.",
        "Suppose Emma is a knight. What follows for the others?",
        "Noah is a knave.",  # as the attempt has it
        "Emma is a knave.",  # not true
        "Emma says that Noah is a knave if and only if Mia is a knight.",
        "What Emma said does not fit your roles.",
        "With your roles, what Emma said is true, but you call Emma a knave.",
        "Knights always tell the truth, and knaves always lie. Look at Emma again.",
        (
            "Mia claims that Emma is a knight and Noah is a knave; is this claim true under your"
            " roles?"
        ),
        "Emma could be a knight or a knave. Try both.",
        "Is Emma a knight? Work out what Noah's statement means then.",
        "Look at Noah's statement: it is about Emma. Compare it with Mia's.",
        "Two of the three roles are wrong.",
        "Every person is either a knight or a knave. Emma, Noah and Mia each have one role.",
        "When Emma is a knight, her statement has to be true.",
        "Consider both cases: Emma is a knight, or Emma is a knave.",
        "Case 1: Emma is a knight. Case 2: Emma is a knave.",
        "Does it follow that Emma is a knight?",
        "Try assuming Mia is a knight and see.",
        "What happens if you change Emma?",
        "Your conclusion that Emma is a knave is based on a misreading.",
    ],
)
def test_what_people_say_or_what_would_follow_is_no_leak(text: str) -> None:
    assert kinds(KNIGHTS, WHO, text, ATTEMPT) == set()


@given(st.lists(st.booleans(), min_size=3, max_size=3))
def test_other_roles_are_never_the_answer(roles: list[bool]) -> None:
    pairs = zip(NAMES, roles, strict=True)
    text = "It is so: " + ", ".join(
        f"{name} is a {'knight' if role else 'knave'}" for name, role in pairs
    )
    assert ("answer" in kinds(KNIGHTS, WHO, text, ATTEMPT)) == (roles == [True, False, True])
    told = {name for name, role in zip(NAMES, roles, strict=True) if role and name != "Noah"}
    assert ("part" in kinds(KNIGHTS, WHO, text, ATTEMPT)) == bool(told)


@pytest.mark.parametrize(
    "text",
    [
        "right, right, down, down",
        "The answer is: right, right, down, down.",
        "You should go right, then right again, then down, and then down.",
        "Try RRDD.",
        "Go right twice and then down twice.",
        "Move two steps to the right, then two steps down.",
        "Right x2, down x2",
        "→ → ↓ ↓",
        "First right, next right, then down, finally down.",
        '["right", "right", "down", "down"]',
        "- right\n- right\n- down\n- down",
        "Two rights and two downs",
        "shortest is right→right→down→down",
        "After that: right -> right -> down -> down works.",
        "rightwards, rightwards, downwards, downwards",
        "You wrote right, down; correct would be right, right, down, down.",
        "Head east, east, south, south.",
        "Visit (0, 0) -> (0, 1) -> (0, 2) -> (1, 2) -> (2, 2).",
        "R2 D2",
        "2x right, 2x down",
        "twice right, twice down",
    ],
)
def test_whole_paths(text: str) -> None:
    assert kinds(PATHS, MAZE, text, MOVED) == {"answer"}


@pytest.mark.parametrize(
    "text",
    [
        "Start with right, right.",
        "Move 2 should be right.",
        "From (0, 1) you should go right.",
        "Step 2 must be right, not down.",
    ],
)
def test_the_move_that_comes_next_is_a_part(text: str) -> None:
    assert kinds(PATHS, MAZE, text, MOVED) == {"part"}
    assert kinds(PATHS, MAZE, text, "\\boxed{right, right, down, left}") == set()  # it had that


@pytest.mark.parametrize(
    "text",
    [
        "Start with the cell on the right.",
        "The way from (0, 0) to (0, 1) is open.",
        "You can only move right, down, left and up.",
        "At (0, 1) you go down, which is an obstacle.",
        "You wrote right, down. Move 2 hits an obstacle.",
        "You went down too early.",
        "Valid moves are: right, down, left, up.",
        "The destination is to the right of and below the start.",
        "Right, let us see. Scroll down and look up the left column.",
        "A path of 4 moves exists.",
        "Move 2, from (1,2), hits an obstacle. Cells are named (row,column), counted from 1.",
        "right, down, down, right does not work",
        "No path goes through an obstacle.",
        'If no path exists, return "infeasible".',
        "It is not infeasible.",
    ],
)
def test_what_lists_no_path_is_no_leak(text: str) -> None:
    assert kinds(PATHS, MAZE, text, MOVED) == set()


@pytest.mark.parametrize(
    "text", ["You should go right.", "The answer is right.", "right", "Just move right."]
)
def test_a_single_move_that_is_told(text: str) -> None:
    assert kinds(PATHS, NEAR, text, "\\boxed{down}") == {"answer"}


@pytest.mark.parametrize(
    "text",
    [
        "You went right, then left.",
        "The cell on the right is open.",
        "Your move right was fine, the next was not.",
    ],
)
def test_a_single_direction_that_is_not(text: str) -> None:
    assert kinds(PATHS, NEAR, text, "\\boxed{right, left}") == set()


@pytest.mark.parametrize(
    "text",
    [
        "No path exists.",
        "This grid is infeasible.",
        "The destination cannot be reached.",
        "It is impossible to get there.",
        "The start is walled in.",
        "There is no way to #.",
    ],
)
def test_that_there_is_no_path_is_the_answer_where_it_is_true(text: str) -> None:
    assert kinds(PATHS, CLOSED, text, MOVED) == {"answer"}
    assert kinds(PATHS, MAZE, text, MOVED) == set()


@pytest.mark.parametrize(
    "text",
    [
        'If no path exists, return "infeasible".',
        "Check whether it is impossible.",
        "Move 1 hits an obstacle.",
    ],
)
def test_that_there_may_be_none_is_no_leak(text: str) -> None:
    assert kinds(PATHS, CLOSED, text, MOVED) == set()


@pytest.mark.parametrize("env", [KNIGHTS, PATHS])
def test_the_guard_looks_at_a_full_explanation(env: Env) -> None:
    for problem in env.build(4, 100, 0).train:
        told = env.explain(problem, "?", env.grade(problem, "?"), "full")
        assert "answer" in kinds(env, problem, told, "?")


def test_compact_answers() -> None:
    knights, paths = KnightsKnaves(style="compact", n_people=3), ShortestPath(style="compact")
    assert kinds(knights, WHO, "It is AbC.", "ABC") == {"answer"}
    assert kinds(knights, WHO, "=x=", "ABC") == kinds(knights, WHO, "ABC", "aBC") == set()
    assert kinds(paths, MAZE, "RRDD", "RD") == {"answer"}
    assert kinds(paths, MAZE, "=X", "RD") == set()


@given(
    text=texts(
        "Emma", "Noah is a knave", "Mia", "knight", "role of", "is wrong", "right x 9", "no path"
    )
)
@examples(300)
def test_no_text_raises_and_every_candidate_lies_in_it(text: str) -> None:
    check_candidates(text)


def test_nor_does_a_hostile_one() -> None:
    for text in hostile_texts(many(1000), *NAMES, "knight", "is", "must be"):
        check_candidates(text)


def check_candidates(text: str) -> None:
    for env, problem in ((KNIGHTS, WHO), (PATHS, MAZE), (PATHS, CLOSED), (PATHS, NEAR)):
        assert isinstance(env, FindsCandidates)
        for candidate in env.candidates(problem, text, text):
            assert 0 <= candidate.start < candidate.end <= len(text)


def test_a_text_with_many_lists_of_roles_takes_no_long_time() -> None:
    start = time.process_time()
    assert len(list(assignments("+" * 8_000, 3))) == 8_000 // 3  # `+++`: three who tell the truth
    assert time.process_time() - start < 0.5  # 3 s if each list had the whole text searched again


@pytest.mark.nightly
@pytest.mark.parametrize(
    "hostile",
    [
        *(
            word * 20_000
            for word in (
                "Emma ",
                "Emma, ",
                "Emma is ",
                "Emma's role ",
                "knight ",
                "knight: ",
                "right ",
                "1. ",
                "+",
                "hundred ",
            )
        ),
        *(word * 50_000 for word in (" ", "no ", "not ", "RD", ": ", "is ", "1. ", "3 steps ")),
        "right" + " " * 100_000,
        f"right {'1' * 30}x right",
        "Emma's role is wrong: Emma is a knight. " * 500,
    ],
)
def test_a_hostile_text_takes_no_long_time(hostile: str) -> None:
    start = time.monotonic()
    for env, problem in ((KNIGHTS, WHO), (PATHS, MAZE), (PATHS, CLOSED)):
        find_leaks(env, problem, hostile, hostile)
        env.grade(problem, hostile)
    assert time.monotonic() - start < 40
