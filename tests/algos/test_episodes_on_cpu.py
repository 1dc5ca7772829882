"""Lines and trees of turns: depths, revisions, and who is compared with whom."""

import pytest
import torch

from rltf_verl.algos.episodes import EpisodeBatch, cohorts, depth, in_line, num_revisions
from tests.support.hand_cases import GROUP, HAND, REWARDS, TREES, VALID, line


def compared(episodes):
    """The cohorts as sets of (episode, turn), without their labels."""
    label, members = cohorts(episodes).label, {}
    for s, m in episodes.valid.nonzero().tolist():
        members.setdefault(int(label[s, m]), set()).add((s, m))
    return sorted(members.values(), key=sorted)


@pytest.mark.parametrize(
    ("episodes", "depths", "revisions"),
    [
        (
            line([[0, 0, 0], [0], [0, 0]]),
            [[0, 1, 2], [0, 0, 0], [0, 1, 0]],
            [[1, 1, 0], [0, 0, 0], [1, 0, 0]],
        ),
        (
            TREES,
            [[0, 1, 2, 1, 0], [0, 1, 1, 0, 0], [0, 0, 0, 0, 0]],
            [[2, 1, 0, 0, 0], [2, 0, 0, 0, 0], [0, 0, 0, 0, 0]],
        ),
    ],
    ids=["lines", "trees"],
)
def test_turns_are_counted_from_the_root(episodes, depths, revisions):
    assert (depth(episodes).tolist(), num_revisions(episodes).tolist()) == (depths, revisions)


def test_in_lines_a_turn_is_compared_with_the_groups_turns_of_the_same_number():
    assert compared(HAND) == [
        {(0, 0), (1, 0), (2, 0)},
        {(1, 1), (2, 1)},
        {(3, 0), (4, 0), (5, 0)},
        {(3, 1), (4, 1), (5, 1)},
    ]
    assert (cohorts(HAND).branches == 3).all()  # whoever stopped


def test_below_a_branch_a_turn_is_compared_with_its_siblings_only():
    assert compared(TREES) == [
        {(0, 0), (1, 0), (2, 0)},
        {(0, 1), (0, 3)},
        {(0, 2)},
        {(1, 1), (1, 2)},
    ]
    lines = cohorts(TREES).branches
    assert lines[:, 0].tolist() == [3, 3, 3]
    assert [lines[0, m].item() for m in (1, 2, 3)] == [2, 2, 2]
    assert [lines[1, m].item() for m in (1, 2)] == [2, 2]


def test_above_a_late_branch_turns_are_compared_across_the_group():
    """Two episodes of 0 → 1 → (2, 3): the branch is at turn 1."""
    parent = torch.tensor([[-1, 0, 1, 1], [-1, 0, 1, 1]])
    valid = torch.ones(2, 4, dtype=torch.bool)
    episodes = EpisodeBatch(torch.zeros(2, 4), ~valid, valid, parent, torch.tensor([0, 0]))
    assert compared(episodes) == [
        {(0, 0), (1, 0)},
        {(0, 1), (1, 1)},
        {(0, 2), (0, 3)},
        {(1, 2), (1, 3)},
    ]


def test_correct_is_read_from_the_reward_unless_it_is_given():
    assert HAND.correct.tolist() == (REWARDS > 0.5).tolist()
    assert not in_line(REWARDS, VALID, GROUP, torch.zeros_like(VALID)).correct.any()
    assert (HAND.num_groups, in_line(REWARDS[:0], VALID[:0], GROUP[:0]).num_groups) == (2, 0)
