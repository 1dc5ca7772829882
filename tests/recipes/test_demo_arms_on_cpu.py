"""recipes/demo/teachers.py and graded.py: their arms pass the checks, and grades are shares."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

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
