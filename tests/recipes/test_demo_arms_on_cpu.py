"""recipes/demo/teachers.py and graded.py: their arms pass the checks, and grades are shares."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rltf_verl.envs import make_env
from rltf_verl.types import Grade
from tests.recipes.composing import RECIPES, program, rltf_of_words


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Name of a program of the demo -> its module; what it imported is forgotten after the test."""
    monkeypatch.syspath_prepend(str(RECIPES / "demo"))
    yield lambda name: program(f"demo/{name}.py")
    for name in ("make_policy", "run_demo", "report"):
        sys.modules.pop(name, None)


def test_each_teacher_passes_the_checks(load: Callable[[str], Any]) -> None:
    teachers = load("teachers")
    for arm, words in teachers.ARMS.items():
        rltf = rltf_of_words("rltf/env=knights_knaves", "rltf/feedback=verifier", *words)
        assert rltf.episode.horizon == 1, arm
        assert rltf.teacher.reads_other_problems == arm.endswith(teachers.CONTROL)


def test_each_arm_of_graded_rewards_passes_the_checks(load: Callable[[str], Any]) -> None:
    baselines = {
        arm: rltf_of_words("rltf/env=binary_matrix", "rltf/feedback=verifier", *words).distill
        for arm, words in load("graded").ARMS.items()
    }
    sd = {arm: own.baseline for arm, own in baselines.items() if own.enabled}
    assert sd == {f"sd {name}": name for name in ("first_turn", "second_turn", "rejection")}


def test_a_grade_is_a_share_and_feedback_rights_one_row(load: Callable[[str], Any]) -> None:
    env = make_env(load("graded").ENV)
    problem = env.build(0, 1, 1).train[0]
    rows = problem.reference.splitlines()
    wrong = ["4" * 3, "4" * 3, rows[2]]
    grade = env.grade(problem, "\\boxed{" + "\n".join(wrong) + "}")
    assert (grade.score, grade.correct, grade.format_ok) == (1 / 3, False, True)
    told = env.explain(problem, "\\boxed{" + "\n".join(wrong) + "}", grade, "full").split("/")
    digits = ["".join(c for c in row if c.isdigit()) for row in told]
    assert digits == [rows[0], wrong[1], wrong[2]]
    assert env.grade(problem, "none") == Grade(False, False, score=0.0)
    assert env.grade(problem, f"\\boxed{{{problem.reference}}}").score == 1.0
