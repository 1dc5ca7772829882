"""The tasks that nobody tuned, and when a run is lost."""

import pytest

from rltf_verl.tools.contract import check_env
from tests.recipes import house_style  # noqa: F401  # makes the files beside it importable
from tests.recipes.composing import program

unseen, unseen_runs = program("pretrained/unseen.py"), program("pretrained/unseen_runs.py")


@pytest.mark.parametrize("task", unseen.TASKS)
def test_a_task_keeps_the_promises_of_an_environment(task):
    kept = check_env(unseen.Unseen(task), seed=0, num_problems=4, num_hostile=50)
    assert [verdict for verdict in kept if verdict.broken] == []


def test_no_task_is_for_choosing_and_for_the_end():
    assert sorted((*unseen.CHOOSING, *unseen.FINAL)) == sorted(unseen.TASKS)


@pytest.mark.parametrize(
    ("shares", "step"),
    [
        ([0.9, 0.8, 0.2, 0.1, 0.0], 3),
        ([0.9, 0.2, None, 0.5, 0.6], None),
        ([0.9, 0.2, None, 0.1, 0.0], 2),
        ([0.0, 0.0, 0.0], None),
    ],
)
def test_a_run_is_lost_after_three_steps_below_a_third_of_its_best(shares, step):
    assert unseen_runs.lost_at(shares) == step
