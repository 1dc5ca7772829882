"""The tasks beyond the study, and when a run is lost."""

import pytest

from rltf_verl.tools.contract import check_env
from tests.recipes import house_style  # noqa: F401  # makes the files beside it importable
from tests.recipes.composing import program

unseen, unseen_runs = program("pretrained/unseen.py"), program("pretrained/unseen_runs.py")


@pytest.mark.parametrize(
    ("kind", "task"),
    [
        *((unseen.Unseen, task) for task in unseen.TASKS),
        *((unseen.Company, task) for task in unseen.COMPANIES),
        *((unseen.Puzzle, task) for task in unseen.PUZZLES),
    ],
)
def test_a_task_keeps_the_promises_of_an_environment(kind, task):
    kept = check_env(kind(task), seed=0, num_problems=4, num_hostile=50)
    assert [verdict for verdict in kept if verdict.broken] == []


def test_no_task_is_for_choosing_and_for_the_end():
    tasks = [task for tasks in unseen_runs.SETS.values() for task in tasks]
    own = [unseen_runs.COMPANY, *unseen.TASKS, *unseen.COMPANIES, *unseen.PUZZLES]
    assert sorted(tasks) == sorted(own)


def test_a_cell_of_the_other_puzzle_counts_its_neighbours_that_are_zero():
    problem = unseen.Puzzle("counts").build(0, 1, 0).train[0]
    assert problem.data["matrix"] == [[1, 1, 1], [1, 0, 1], [1, 1, 1]]
    assert problem.reference == "010\n101\n010"


def test_the_page_has_the_table_of_all_runs():
    page = unseen_runs.PAGE.read_text("utf-8")
    assert unseen_runs.with_table(page, unseen_runs.finished()) == page


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
