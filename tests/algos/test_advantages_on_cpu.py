"""Returns and every estimator of a turn's advantage against numbers worked out by hand (RLTF_SPEC
8.1, `hand_2x3`); the advantage of a distilled answer, by every baseline.
"""

import math

import pytest
import torch

from rltf_verl.algos.advantages import (
    cohort_sums,
    turn_advantages,
)
from rltf_verl.algos.distill import distill_advantages
from rltf_verl.algos.episodes import cohorts
from rltf_verl.algos.returns import discounted_returns
from tests.support.hand_cases import HAND, SECOND, close, line

ESTIMATORS = ["group_mean", "leave_one_out", "ragged", "first_turn", "none"]
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
    ],
)
def test_discounted_returns(episodes, gamma, expected):
    """`expected`: of all turns, or of the first ones."""
    returns = discounted_returns(episodes, gamma)
    close(returns if isinstance(expected[0], list) else returns[:, 0], expected)


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


def test_normalised_advantages_by_cohort():
    episodes = line([[1.0, 4.0], [2.0, 6.0], [6.0], [3.0, 9.0]], [0, 0, 0, 1])
    root = math.sqrt(2)
    close(advantages(episodes, "none", norm_by_std=True)[:2, 1], [4 / root, 6 / root])
    for estimator in ESTIMATORS:  # a turn alone has no deviation to be divided by
        assert not advantages(episodes, estimator, norm_by_std=True)[[2, 3, 3], [1, 0, 1]].any()
    equal = line([[0.3, 1.0]] * 3)
    for estimator in ESTIMATORS:  # nor has a cohort with one and the same return
        close(advantages(equal, estimator, norm_by_std=True), [[0.0, 0.0]] * 3)
    # 0.9 each, but for the rounding
    sums = line([[0.3, 0.6], [0.4, 0.5], [0.1, 0.8], [0.2, 0.7]])
    returns = discounted_returns(sums, 1.0)
    assert len(returns[:, 0].unique()) > 1
    assert not turn_advantages(returns, sums, "group_mean", norm_by_std=True)[:, 0].any()


def test_joined_is_divided_by_the_deviation_of_all_that_is_compared():
    root = math.sqrt(3)
    episodes = line([[1.0, 4.0], [1.0]])  # mean 2, unbiased variance (1 + 4 + 1) / 2
    close(advantages(episodes, "joined", norm_by_std=True), [[-1 / root, 2 / root], [-1 / root, 0]])
    # neither first nor last: it moves neither mean nor deviation
    with_middle = advantages(line([[1.0, 100.0, 4.0], [1.0]]), "joined", norm_by_std=True)
    close(with_middle[0, [0, 2]], [-1 / root, 2 / root])


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


def test_rejection_asks_the_verifier_and_not_the_reward():
    correct = torch.zeros_like(HAND.correct)
    correct[2, 1] = True
    episodes = type(HAND)(HAND.rewards, correct, HAND.valid, HAND.group)
    assert at(episodes, "rejection", [1] * 6).tolist() == [0, 0, 1, 0, 0, 0]
