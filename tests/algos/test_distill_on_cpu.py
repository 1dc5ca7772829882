"""The advantage of a distilled answer, by every baseline, and the log-prob floor."""

import pytest
import torch

from rltf_verl.algos.advantages import turn_advantages
from rltf_verl.algos.distill import distill_advantages, floor_mask, soft_floor
from rltf_verl.algos.returns import discounted_returns
from tests.support.hand_cases import HAND, SECOND, TREES, close, line

THREE = line([[0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
LAST = [1, 2, 2]
"""The last turn of each of its episodes."""


def at(episodes, baseline, turns, gamma=0.1):
    """a of one turn of each episode."""
    table = distill_advantages(discounted_returns(episodes, gamma), episodes, baseline)
    return table[range(len(turns)), turns]


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        ("first_turn", [0.7, -0.3, 1 + 0.1 / 3, 1 + 0.1 / 3, 0.9 + 0.1 / 3]),
        # first rewards (1, 0, −0.1) and (0, 0, −0.1), each without its own
        ("leave_one_out", [1 - 0.45, 0 - 0.5, 1 + 0.05, 1 + 0.05, 0.9]),
        ("second_turn", [0.5, -0.5, 0.1 / 3, 0.1 / 3, -0.2 / 3]),
        ("second_turn_padded", [0.5, -0.5, 0.1 / 3, 0.1 / 3, -0.2 / 3]),  # horizon 2: no defect
        # returns of group 0: first turns 1, 0.1, −0.1, refined 1, 0; of group 1: 0.1, 0.1, −0.01,
        # refined 1, 1, 0.9
        ("joined", [1 - 0.4, 0 - 0.4, 1 - 3.09 / 6, 1 - 3.09 / 6, 0.9 - 3.09 / 6]),
        ("none", [1.0, 0.0, 1.0, 1.0, 0.9]),
        ("rejection", [1.0, 0.0, 1.0, 1.0, 1.0]),  # right, but cut off: right
    ],
)
def test_the_hand_worked_case(baseline, expected):
    close(at(HAND, baseline, [1] * 6)[SECOND], expected)


def test_joined_is_the_attempts_own_mean_and_deviation():
    returns = discounted_returns(HAND, 0.0)
    for norm in (False, True):
        refined = distill_advantages(returns, HAND, "joined", norm)
        close(refined, turn_advantages(returns, HAND, "joined", norm).tolist())
    assert distill_advantages(returns, HAND, "first_turn", True).equal(
        distill_advantages(returns, HAND, "first_turn")
    )


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        ("second_turn", [1.0 - 1.1 / 3, 0.5, -0.5]),
        (
            "second_turn_padded",
            [0.0, 0.5, -0.5],
        ),  # the release reads the group's last turn: 0 for episode 0
        ("first_turn", [1.0, 1.0, 0.0]),
        ("leave_one_out", [1.0, 1.0, 0.0]),
    ],
)
def test_with_three_turns_each_episode_is_judged_at_its_own_last_turn(baseline, expected):
    close(at(THREE, baseline, LAST), expected)


def test_the_group_of_the_padded_baseline_is_its_own_and_not_the_batch():
    episodes = line([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]], [0, 0, 1, 1])
    close(at(episodes, "second_turn_padded", [1, 1, 2, 2]), [0.5, -0.5, 0.5, -0.5])


def test_a_group_of_one():
    episodes = line([[0.25, 1.0]])
    expected = {
        "first_turn": 0.75,
        "leave_one_out": 0.0,
        "second_turn": 0.0,
        "none": 1.0,
        "rejection": 1.0,
    }
    assert {b: at(episodes, b, [1]).item() for b in expected} == expected


def test_in_a_tree_every_line_has_an_answer_to_distil():
    """First rewards 0, 0.2 and 1 have the mean 0.4; leaves are turns 2 and 3 of episode 0, 1 and 2
    of episode 1.
    """
    leaves = [0, 0, 1, 1], [2, 3, 1, 2]
    for baseline, expected in (
        ("first_turn", [0.6, 0.1, 0.6, -0.4]),
        ("leave_one_out", [1.0 - 0.6, 0.5 - 0.6, 1.0 - 0.5, -0.5]),
    ):
        close(distill_advantages(discounted_returns(TREES, 0.1), TREES, baseline)[leaves], expected)


def test_rejection_asks_the_verifier_and_not_the_reward():
    correct = torch.zeros_like(HAND.correct)
    correct[2, 1] = True
    episodes = type(HAND)(HAND.rewards, correct, HAND.valid, HAND.parent, HAND.group)
    assert at(episodes, "rejection", [1] * 6).tolist() == [0, 0, 1, 0, 0, 0]


def test_the_floor_keeps_minus_five_and_drops_what_is_below():
    log_probs = torch.tensor([[-1.0, -6.0, -5.0, -0.3], [-4.999, -5.001, float("-inf"), 0.0]])
    assert floor_mask(log_probs, -5.0).tolist() == [
        [True, False, True, True],
        [True, False, False, True],
    ]
    assert floor_mask(log_probs, None).all()


def test_the_soft_floor_by_hand():
    """1 down to the floor, then e^-1 per nat; a token that cannot happen weighs nothing."""
    log_probs = torch.tensor([[-1.0, -5.0, -5.5, -6.0, -8.0, float("-inf")]])
    close(soft_floor(log_probs, -5.0), [[1.0, 1.0, 0.6065307, 0.3678794, 0.0497871, 0.0]])


def test_the_soft_floor_is_the_gradient_of_the_logarithms_tangent():
    """Below the floor f the loss is f − 1 + π / e^f, above it log π; its derivative in log π is the
    weight.
    """
    floor = -5.0
    log_prob = torch.tensor([-0.5, -4.9, -5.1, -9.0], dtype=torch.float64, requires_grad=True)
    loss = torch.where(log_prob < floor, floor - 1 + (log_prob - floor).exp(), log_prob)
    (gradient,) = torch.autograd.grad(loss.sum(), log_prob)
    torch.testing.assert_close(gradient, soft_floor(log_prob.detach(), floor))
    assert (loss >= floor - 1).all()
