"""No answer is right for all problems of a task of reasoning-gym."""

from __future__ import annotations

import pytest

from rltf_verl.envs.reasoning_gym import worker
from rltf_verl.envs.reasoning_gym.env import REFUSED
from tests.support.gym_constants import SLACK, sweep

TASKS = [name for name in worker.names() if name not in REFUSED]
REPAIRED = ("coin_flip", "complex_arithmetic", "puzzle24", *worker.EXACT)

FEW_ANSWERS = {
    "acre": 0.45,
    "circuit_logic": 0.65,
    "course_schedule": 0.5,
    "isomorphic_strings": 0.55,
    "letter_counting": 0.35,
    "mahjong_puzzle": 0.45,
    "polynomial_equations": 0.43,
    "ransom_note": 0.6,
    "rectangle_count": 0.35,
    "self_reference": 0.35,
    "syllogism": 0.55,
    "zebra_puzzles": 0.4,
}
"""Task -> mean score of its best constant, as measured, where that is above 0.3."""


@pytest.mark.parametrize("task", REPAIRED)
def test_what_scored_for_every_problem_scores_no_more(task):
    found = sweep(task)
    assert found.score <= found.common + SLACK, found


@pytest.mark.e2e
@pytest.mark.nightly
def test_no_constant_scores_more_than_the_answers_explain():
    found = {task: sweep(task) for task in TASKS}
    assert {task: one for task, one in found.items() if one.score > one.common + SLACK} == {}
    assert {
        task: round(one.score, 2) for task, one in found.items() if one.score > 0.3
    } == FEW_ANSWERS


@pytest.mark.parametrize(
    ("task", "answer", "right"),
    [
        ("puzzle24", "4*10 - 7 - 9", True),
        ("puzzle24", "(4*10 - 7 - 9) + 0", False),
        ("puzzle24", "9 + 7 + 10 - 4", False),
        ("puzzle24", "4*9 - 10 - 7/4", False),
        ("coin_flip", "1/32", True),
        ("coin_flip", "0.0312", True),
        ("coin_flip", "0.03", False),
        ("complex_arithmetic", "3 - 2i", True),
        ("complex_arithmetic", "3 + NaNj", False),
    ],
)
def test_the_right_number_is_still_right(task: str, answer: str, right: bool) -> None:
    entry = {"metadata": {"numbers": [9, 7, 10, 4]}, "answer": "0.03125"}
    assert worker.holds(task, entry, answer) == right


def test_a_task_whose_items_hold_fractions_is_kept():
    assert len(worker.generate("gsm_symbolic", "{}", 20, 12345, 0, 20)) == 20


def test_a_right_answer_scores_one_whatever_its_parts_add_up_to() -> None:
    entry = {"question": "", "answer": "a b c d e f", "metadata": {}}
    assert worker.score("letter_jumble", "{}", entry, "a b c\nd e f") == 1.0  # 6 * (1 / 6) is less
