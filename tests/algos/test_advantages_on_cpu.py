"""Returns and every estimator of a turn's advantage against numbers worked out by hand
(RLTF_SPEC 8.1, `hand_2x3`), in lines and in trees.
"""

import math

import pytest
import torch

from rltf_verl.algos.advantages import (
    cohort_sums,
    first_turn_mean,
    turn_advantages,
    with_neutral_rewards,
)
from rltf_verl.algos.episodes import cohorts
from rltf_verl.algos.returns import discounted_returns
from tests.support.hand_cases import HAND, REWARDS, TREES, close, line

ESTIMATORS = ["group_mean", "leave_one_out", "ragged", "first_turn", "none"]
J = 3.7 / 7
RAGGED = line([[1.0, 4.0], [2.0, 6.0], [6.0]])
"""Given as returns: first turns 1, 2, 6 (mean 3); second turns 4, 6 and nobody."""


def advantages(episodes, estimator="group_mean", **kwargs):
    """The episodes' rewards taken as their returns."""
    return turn_advantages(
        torch.where(episodes.valid, episodes.rewards, 0.0), episodes, estimator, **kwargs
    )


THREE_TURNS = line([[1.0, 2.0, 4.0], [1.0, 2.0], [1.0]])


@pytest.mark.parametrize(
    ("episodes", "gamma", "expected"),
    [
        (HAND, 0.1, [[1.0, 0.0], [0.1, 1.0], [-0.1, 0.0], [0.1, 1.0], [0.1, 1.0], [-0.01, 0.9]]),
        # what was not played is skipped
        (THREE_TURNS, 0.5, [[3.0, 4.0, 4.0], [2.0, 2.0, 0.0], [1.0, 0.0, 0.0]]),
        (THREE_TURNS, 0.0, [1.0, 1.0, 1.0]),
        (THREE_TURNS, 1.0, [7.0, 3.0, 1.0]),
        # an attempt's return holds the mean of its revisions. Episode 0: leaf 1.0 under 0.0 gives
        # 0.5; beside it 0.5; their mean 0.5, halved, is the root's
        (
            TREES,
            0.5,
            [
                [0.25, 0.5, 1.0, 0.5, 0.0],
                [0.2 + 0.5 * 0.5, 1.0, 0.0, 0.0, 0.0],
                [1.0, 0.0, 0.0, 0.0, 0.0],
            ],
        ),
        (TREES, 1.0, [0.75, 0.7, 1.0]),
    ],
)
def test_discounted_returns(episodes, gamma, expected):
    """`expected`: of all turns, or of the first ones."""
    returns = discounted_returns(episodes, gamma)
    close(returns if isinstance(expected[0], list) else returns[:, 0], expected)


def test_advantages_of_the_hand_worked_case():
    third = 1 / 3
    close(
        turn_advantages(discounted_returns(HAND, 0.1), HAND),
        [
            [1 - third, 0.0],
            [0.1 - third, 0.5],
            [-0.1 - third, -0.5],
            [0.11 * third, 0.1 * third],
            [0.11 * third, 0.1 * third],
            [-0.22 * third, -0.2 * third],
        ],
    )


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        ("group_mean", [[-2, -1], [-1, 1], [3, 0]]),
        ("leave_one_out", [[1 - 4, 4 - 6], [2 - 3.5, 6 - 4], [6 - 1.5, 0]]),
        # second turns: the episode that ended counts as 0, so two others, not one
        ("ragged", [[1 - 4, 4 - 6 / 2], [2 - 3.5, 6 - 4 / 2], [6 - 1.5, 0]]),
        ("first_turn", [[-2, 1], [-1, 3], [3, 0]]),
        (
            "joined",
            [[1 - 3.8, 4 - 3.8], [2 - 3.8, 6 - 3.8], [6 - 3.8, 0]],
        ),  # all five in one: mean 19/5
        ("none", [[1, 4], [2, 6], [6, 0]]),
    ],
)
def test_ragged_episodes(estimator, expected):
    close(advantages(RAGGED, estimator), expected)


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        # returns as given in TREES: roots 0, 0.2, 1; siblings (0, 0.5) and (1, 0); below the first
        # of them 1.0, alone
        ("group_mean", [[-0.4, -0.25, 0, 0.25, 0], [-0.2, 0.5, -0.5, 0, 0], [0.6, 0, 0, 0, 0]]),
        ("leave_one_out", [[-0.6, -0.5, 0, 0.5, 0], [-0.3, 1, -1, 0, 0], [0.9, 0, 0, 0, 0]]),
        ("ragged", [[-0.6, -0.5, 1, 0.5, 0], [-0.3, 1, -1, 0, 0], [0.9, 0, 0, 0, 0]]),
        ("first_turn", [[-0.4, -0.4, 0.6, 0.1, 0], [-0.2, 0.6, -0.4, 0, 0], [0.6, 0, 0, 0, 0]]),
        # roots 0, 0.2, 1 and ends 1, 0.5, 1, 0: mean 3.7/7; the turn between root and end moves
        # nothing
        ("joined", [[-J, -J, 1 - J, 0.5 - J, 0], [0.2 - J, 1 - J, -J, 0, 0], [1 - J, 0, 0, 0, 0]]),
    ],
)
def test_in_a_tree_siblings_are_compared(estimator, expected):
    close(advantages(TREES, estimator), expected)


@pytest.mark.parametrize(
    ("estimator", "alone_in_turn_2", "alone_in_group"),
    [
        ("group_mean", 0.0, 0.0),
        ("leave_one_out", 0.0, 0.0),
        ("ragged", 0.9, 5.0),
        ("first_turn", 0.9 - 0.5, 0.0),
        ("joined", 0.9 - 1.9 / 3, 0.0),
        ("none", 0.9, 5.0),
    ],
)
def test_a_turn_alone_in_its_cohort(estimator, alone_in_turn_2, alone_in_group):
    """Where there is nothing to compare with, group_mean and leave_one_out give exactly 0."""
    actual = advantages(line([[0.3], [0.7, 0.9], [5.0]], [0, 0, 1]), estimator)
    assert actual[1, 1].item() == pytest.approx(alone_in_turn_2)
    assert actual[2, 0].item() == alone_in_group
    if estimator == "group_mean":
        close(actual[:2, 0], [-0.2, 0.2])


def test_the_standard_deviation_is_divided_out_only_when_asked_for():
    episodes = line([[10.0], [0.0]])
    close(advantages(episodes), [[5.0], [-5.0]])
    root_half = math.sqrt(0.5)  # 5 / (10 / √2): the unbiased deviation
    close(advantages(episodes, norm_by_std=True), [[root_half], [-root_half]])


def test_normalised_advantages_by_cohort():
    episodes = line([[1.0, 4.0], [2.0, 6.0], [6.0], [3.0, 9.0]], [0, 0, 0, 1])
    first, second = math.sqrt((4 + 1 + 9) / 2), math.sqrt(2)
    close(
        advantages(episodes, norm_by_std=True),
        [
            [-2 / first, -1 / second],
            [-1 / first, 1 / second],
            [3 / first, 0],
            [0, 0],
        ],  # the last is alone in both
    )
    close(advantages(episodes, "none", norm_by_std=True)[:2, 1], [4 / second, 6 / second])
    for estimator in ESTIMATORS:  # a turn alone has no deviation to be divided by
        assert not advantages(episodes, estimator, norm_by_std=True)[[2, 3, 3], [1, 0, 1]].any()
    equal = line([[0.3, 1.0]] * 3)
    for estimator in ESTIMATORS:  # nor has a cohort with one and the same return
        close(advantages(equal, estimator, norm_by_std=True), [[0.0, 0.0]] * 3)


def test_joined_is_divided_by_the_deviation_of_all_that_is_compared():
    root = math.sqrt(3)
    episodes = line([[1.0, 4.0], [1.0]])  # mean 2, unbiased variance (1 + 4 + 1) / 2
    close(advantages(episodes, "joined", norm_by_std=True), [[-1 / root, 2 / root], [-1 / root, 0]])
    # neither first nor last: it moves neither mean nor deviation
    with_middle = advantages(line([[1.0, 100.0, 4.0], [1.0]]), "joined", norm_by_std=True)
    close(with_middle[0, [0, 2]], [-1 / root, 2 / root])


@pytest.mark.parametrize("estimator", [*ESTIMATORS, "joined"])
@pytest.mark.parametrize("norm", [True, False])
def test_every_estimator_is_finite_and_zero_where_nobody_played(estimator, norm):
    for episodes in (HAND, TREES, RAGGED, line([[1.0]])):
        actual = advantages(episodes, estimator, norm_by_std=norm)
        assert torch.isfinite(actual).all()
        assert not actual[~episodes.valid].any()
        assert actual.dtype == torch.float32


def test_sums_are_taken_in_double_precision():
    """Ten thousand episodes around 1e4: in single precision the mean would be off in the second
    digit.
    """
    num = 10_000
    values = 1e4 + torch.arange(num, dtype=torch.float32).unsqueeze(1) % 2
    episodes = line([[0.0]] * num)
    sums, counts = cohort_sums(values, cohorts(episodes), episodes.valid)
    assert (sums[0, 0].item(), counts[0, 0].item()) == (1e4 * num + num / 2, num)
    close(turn_advantages(values, episodes).abs().amax(), 0.5)


def test_the_first_turns_mean_counts_early_stopped_episodes():
    close(first_turn_mean(REWARDS, HAND), [0.3] * 3 + [-0.1 / 3] * 3)


def test_a_turn_without_a_verdict_moves_nobody_and_has_no_advantage():
    """Episodes 0 and 1 as if episode 2 were not there; its own second turn at their mean."""
    played = line([[0.0, 1.0], [0.5, 0.5], [1.0, 0.0]])
    ungraded = torch.tensor([[False, False], [False, False], [False, True]])
    neutral = with_neutral_rewards(played, ungraded)
    close(neutral.rewards, [[0.0, 1.0], [0.5, 0.5], [1.0, 0.75]])
    close(advantages(neutral)[:, 1], [0.25, -0.25, 0.0])
    alone = with_neutral_rewards(line([[0.3]]), torch.tensor([[True]]))
    close(alone.rewards, [[0.0]])
