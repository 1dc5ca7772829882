"""What rows train, in words: titles from parts, names of turns in trees."""

import pytest

from rltf_verl.tools.report.row_words import ROLES, TRAINS, names, title
from rltf_verl.types import Role

LINE = [{"parent": None}, {"parent": 0}, {"parent": 1}]
TREE = [{"parent": None}, {"parent": 0}, {"parent": 0}, {"parent": 2}, {"parent": 2}]


def part(role, turn):
    return {"role": role, "turn": turn, "tokens": 3}


@pytest.mark.parametrize(
    ("parts", "turns", "expected"),
    [
        ([("attempt", 0)], LINE, "first prompt → attempt 1"),
        ([("attempt", 1)], LINE, "prompt to revise attempt 1 → attempt 2"),
        ([("attempt", 0), ("attempt", 1)], LINE, "first prompt → attempt 1 → attempt 2"),
        (
            [("attempt", 0), ("feedback", 0), ("attempt", 1)],
            LINE,
            "first prompt → attempt 1 → feedback on attempt 1 → attempt 2",
        ),
        ([("distill", 2)], LINE, "first prompt → attempt 3"),
        ([("imitate", 1), ("imitate", 1)], LINE, "first prompt → attempt 2"),
        ([("critique", 1)], LINE, "critic prompt about attempt 1 → critique of attempt 1"),
        ([("feedback", 0)], LINE, "critic prompt about attempt 1 → feedback on attempt 1"),
        ([("distill", 4)], TREE, "first prompt → attempt 3, branch 2 of 2 on branch 2"),
        (
            [("attempt", 3)],
            TREE,
            "prompt to revise attempt 2, branch 2 of 2 → attempt 3, branch 1 of 2 on branch 2",
        ),
        ([], LINE, "nothing but context"),
        ([("attempt", 7)], LINE, "first prompt → an attempt that is not in the log"),
    ],
)
def test_titles(parts, turns, expected):
    assert title({"parts": [part(*own) for own in parts]}, turns) == expected


def test_names_tell_the_turns_of_a_tree_apart():
    assert names(LINE) == ["attempt 1", "attempt 2", "attempt 3"]
    deep = [*TREE, {"parent": 1}, {"parent": 4}, {"parent": 6}, {"parent": 6}]
    assert len(set(names(deep))) == len(deep)


def test_every_role_has_its_words():
    assert tuple(TRAINS) == ROLES  # the page finds a role's name by its number
    assert [Role[name.upper()] for name in ROLES] == sorted(Role)
