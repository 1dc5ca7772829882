"""Returns, baselines and distillation advantages against numbers worked out by hand (RLTF_SPEC 8.1, `hand_2x3`)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rltf_verl.algos.distill import distill_advantages, floor_mask, last_turn
from rltf_verl.algos.returns import center_by_group_and_turn, discounted_returns, group_turn_mean

# Two groups of three sessions; the first session of group 0 stopped early.
REWARDS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-0.1, 0.0], [0.0, 1.0], [0.0, 1.0], [-0.1, 0.9]])
VALID = torch.tensor([[True, False], [True, True], [True, True], [True, True], [True, True], [True, True]])
GROUP = torch.tensor([0, 0, 0, 1, 1, 1])
SECOND = [1, 2, 3, 4, 5]
"""Sessions with a second turn."""


def close(actual, expected, tol=1e-6):
    torch.testing.assert_close(torch.as_tensor(actual).double(), torch.tensor(expected).double(), atol=tol, rtol=0)


def test_discounted_returns_of_the_hand_worked_case():
    close(
        discounted_returns(REWARDS, VALID, 0.1),
        [[1.0, 0.0], [0.1, 1.0], [-0.1, 0.0], [0.1, 1.0], [0.1, 1.0], [-0.01, 0.9]],
    )


def test_discounted_returns_over_three_turns_skip_what_was_not_played():
    rewards = torch.tensor([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0], [1.0, 2.0, 4.0]])
    valid = torch.tensor([[True, True, True], [True, True, False], [True, False, False]])
    close(discounted_returns(rewards, valid, 0.5), [[3.0, 4.0, 4.0], [2.0, 2.0, 0.0], [1.0, 0.0, 0.0]])
    close(discounted_returns(rewards, valid, 0.0)[:, 0], [1.0, 1.0, 1.0])
    close(discounted_returns(rewards, valid, 1.0)[:, 0], [7.0, 3.0, 1.0])


def test_values_in_turns_that_were_not_played_are_ignored():
    poisoned = torch.where(VALID, REWARDS, torch.tensor(float("nan")))
    returns = discounted_returns(poisoned, VALID, 0.1)
    close(returns, discounted_returns(REWARDS, VALID, 0.1).tolist())


def test_advantages_are_centred_over_the_sessions_that_played_the_turn():
    advantages = center_by_group_and_turn(discounted_returns(REWARDS, VALID, 0.1), VALID, GROUP)
    third = 1 / 3
    close(
        advantages,
        [
            [1 - third, 0.0],
            [0.1 - third, 0.5],
            [-0.1 - third, -0.5],
            [0.11 * third, 0.1 * third],
            [0.11 * third, 0.1 * third],
            [-0.22 * third, -0.2 * third],
        ],
    )


def test_a_session_alone_at_its_turn_or_in_its_group_gets_exactly_zero():
    returns = torch.tensor([[0.3, 0.0], [0.7, 0.9], [5.0, 0.0]])
    valid = torch.tensor([[True, False], [True, True], [True, False]])
    advantages = center_by_group_and_turn(returns, valid, torch.tensor([0, 0, 1]))
    assert advantages[1, 1] == 0.0
    assert advantages[2, 0] == 0.0
    close(advantages[:2, 0], [-0.2, 0.2])


def test_the_standard_deviation_is_not_divided_out():
    returns = torch.tensor([[10.0], [0.0]])
    valid = torch.ones(2, 1, dtype=torch.bool)
    close(center_by_group_and_turn(returns, valid, torch.tensor([0, 0])), [[5.0], [-5.0]])


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_order_of_sessions_does_not_matter(data):
    num, turns = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    reward = st.floats(-1, 1, width=32)
    rewards = torch.tensor(
        data.draw(st.lists(st.lists(reward, min_size=turns, max_size=turns), min_size=num, max_size=num))
    )
    played = torch.tensor(data.draw(st.lists(st.integers(1, turns), min_size=num, max_size=num)))
    group = torch.tensor(data.draw(st.lists(st.integers(0, 2), min_size=num, max_size=num)))
    order = torch.tensor(data.draw(st.permutations(range(num))))
    valid = torch.arange(turns) < played.unsqueeze(1)

    def both(rewards, valid, group):
        returns = discounted_returns(rewards, valid, 0.3)
        first = distill_advantages(rewards, returns, valid, group, "first_turn")
        return center_by_group_and_turn(returns, valid, group), first

    centred, first = both(rewards, valid, group)
    centred_permuted, first_permuted = both(rewards[order], valid[order], group[order])
    torch.testing.assert_close(centred_permuted, centred[order], atol=1e-6, rtol=0)
    torch.testing.assert_close(first_permuted, first[order], atol=1e-6, rtol=0)
    for g in group.unique():  # centred: every group's turn adds up to nothing
        torch.testing.assert_close(centred[group == g].sum(dim=0), torch.zeros(turns), atol=1e-5, rtol=0)


def test_first_turn_baseline_counts_early_stopped_sessions():
    close(group_turn_mean(REWARDS[:, :1], VALID[:, :1], GROUP).squeeze(1), [0.3] * 3 + [-0.1 / 3] * 3)
    a = distill_advantages(REWARDS, discounted_returns(REWARDS, VALID, 0.1), VALID, GROUP, "first_turn")
    close(a[SECOND], [0.7, -0.3, 1 + 0.1 / 3, 1 + 0.1 / 3, 0.9 + 0.1 / 3])


def test_second_turn_baseline():
    a = distill_advantages(REWARDS, discounted_returns(REWARDS, VALID, 0.1), VALID, GROUP, "second_turn")
    close(a[SECOND], [0.5, -0.5, 0.1 / 3, 0.1 / 3, -0.2 / 3])


def test_second_turn_baseline_collapses_when_feedback_makes_everyone_right_and_the_first_does_not():
    rewards = torch.tensor([[0.0, 1.0]] * 4)
    valid, group = torch.ones(4, 2, dtype=torch.bool), torch.zeros(4, dtype=torch.int64)
    returns = discounted_returns(rewards, valid, 0.1)
    assert distill_advantages(rewards, returns, valid, group, "second_turn").tolist() == [0.0] * 4
    assert distill_advantages(rewards, returns, valid, group, "first_turn").tolist() == [1.0] * 4


def test_with_three_turns_each_session_is_judged_at_its_own_last_turn():
    """The release reads the group's last turn instead: 0 for session 0."""
    rewards = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    valid = torch.tensor([[True, True, False], [True, True, True], [True, True, True]])
    group = torch.zeros(3, dtype=torch.int64)
    returns = discounted_returns(rewards, valid, 0.1)
    assert last_turn(valid).tolist() == [1, 2, 2]
    close(distill_advantages(rewards, returns, valid, group, "second_turn"), [1.0 - 1.1 / 3, 0.5, -0.5])
    close(distill_advantages(rewards, returns, valid, group, "first_turn"), [1.0, 1.0, 0.0])


def test_the_floor_keeps_minus_five_and_drops_what_is_below():
    log_probs = torch.tensor([[-1.0, -6.0, -5.0, -0.3], [-4.999, -5.001, float("-inf"), 0.0]])
    assert floor_mask(log_probs, -5.0).tolist() == [[True, False, True, True], [True, False, False, True]]
    assert floor_mask(log_probs, None).all()


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: discounted_returns(REWARDS, VALID[:3], 0.1), "valid"),
        (lambda: group_turn_mean(REWARDS, VALID, GROUP[:4]), "group"),
        (lambda: center_by_group_and_turn(REWARDS, VALID[:, :1], GROUP), "valid"),
        (lambda: distill_advantages(REWARDS, REWARDS[:2], VALID, GROUP, "first_turn"), "returns"),
    ],
)
def test_a_wrong_shape_names_the_argument_and_both_shapes(call, argument):
    with pytest.raises(ValueError, match=rf"{argument} has shape \(.*\), expected \(6.*\)"):
        call()
