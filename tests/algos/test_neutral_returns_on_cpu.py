"""What must not move an advantage: a continuation or a verdict that is missing for a technical
reason; and for SD, which judges an answer as one to the first prompt, the shaping of rewards.
"""

import typing
from dataclasses import replace

import pytest
import torch
from torch.distributions import Binomial

from rltf_verl.algos.advantages import turn_advantages
from rltf_verl.algos.distill import distill_advantages
from rltf_verl.algos.gate import solved_share
from rltf_verl.algos.returns import discounted_returns
from rltf_verl.config import AttemptConfig, DistillConfig, RewardConfig, RLTFConfig
from rltf_verl.config.objectives import Baseline, Estimator
from rltf_verl.episode.reward import shape_rewards
from rltf_verl.episode.rows import attempt_rows
from rltf_verl.objectives.distill import distill_rows
from rltf_verl.types import (
    TECHNICAL_STOPS,
    Attempt,
    Episode,
    Grade,
    Problem,
    Role,
    StopReason,
    Turn,
)
from tests.support.game import GAMMA, Game, Player, check, expected_gradients
from tests.support.hand_cases import close
from tests.support.methods import targets_of
from tools.parity.pack import pack_episodes, pack_rows

ESTIMATORS = typing.get_args(Estimator)
BY_COHORT = [e for e in ESTIMATORS if e not in ("none", "joined", "first_turn")]


def episode(*turns):
    """Turns as (reward, stop)."""
    made = [
        Turn(
            Attempt((k,), (1,), None, str(k), True),
            Grade(reward > 0.5, True),
            reward,
            stop=stop,
        )
        for k, (reward, stop) in enumerate(turns)
    ]
    return Episode(Problem("x", 0, {}, ""), 0, tuple(made))


MENDED = episode((0.0, None), (1.0, "horizon"))


def broken(stop, reward=0.0):
    return episode((reward, stop))


def advantages(episodes, estimator, gamma):
    sessions = pack_episodes(episodes, [0] * len(episodes))
    return turn_advantages(discounted_returns(sessions, gamma), sessions, estimator)


def test_every_reason_to_stop_is_one_of_the_attempt_or_a_technical_one():
    """A new reason has to be put on one side."""
    assert set(typing.get_args(StopReason)) == TECHNICAL_STOPS | {"solved", "horizon", "not_asked"}


@pytest.mark.parametrize("gamma", [0.1, 1.0])
@pytest.mark.parametrize("stop", sorted(TECHNICAL_STOPS))
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_four_equal_answers_have_equal_advantages_though_one_got_no_feedback(
    estimator, stop, gamma
):
    """Three of four equal wrong first answers were mended. By cohort: −0.075 and +0.025 each would
    be a lie.
    """
    table = advantages([MENDED, MENDED, MENDED, broken(stop)], estimator, gamma)
    own = 0.0 if stop == "ungraded" else table[0, 0].item()
    assert table[:, 0].tolist() == pytest.approx([table[0, 0].item()] * 3 + [own], abs=1e-6)
    if estimator in (*BY_COHORT, "first_turn"):
        close(table[:, 0], [0.0] * 4)


@pytest.mark.parametrize("stop", ["solved", "horizon", "not_asked"])
def test_an_episode_that_ended_as_it_should_has_no_continuation_to_make_up_for(stop):
    table = advantages([MENDED, MENDED, MENDED, broken(stop)], "group_mean", 0.1)
    close(table[:, 0], [0.025, 0.025, 0.025, -0.075])


UNGRADED = episode((0.0, None), (0.0, "ungraded"))
FAILED = episode((0.0, None), (0.0, "horizon"))


@pytest.mark.parametrize("norm_by_std", [False, True])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_without_a_verdict_there_is_no_advantage(estimator, norm_by_std):
    """First and second answers; nor do they narrow what the others are compared with."""
    sessions = pack_episodes([MENDED, MENDED, FAILED, UNGRADED, broken("ungraded")], [0] * 5)
    table = turn_advantages(discounted_returns(sessions, 0.1), sessions, estimator, norm_by_std)
    assert (table[3, 1], table[4, 0]) == (0, 0)
    if estimator not in ("ragged", "first_turn", "joined"):  # of second answers alone
        others = pack_episodes([MENDED, MENDED, FAILED], [0] * 3)
        alone = turn_advantages(discounted_returns(others, 0.1), others, estimator, norm_by_std)
        close(table[:3, 1], alone[:, 1].tolist())


def test_distillation_compares_with_first_answers_that_have_a_verdict():
    """Rewards 1 and 0 of first answers; a third episode has none."""
    sessions = pack_episodes([broken("solved", 1.0), MENDED, broken("ungraded")], [0] * 3)
    assert distill_advantages(sessions.rewards, sessions, "first_turn")[1, 1] == 0.5
    assert distill_advantages(sessions.rewards, sessions, "leave_one_out")[1, 1] == 0


def test_the_share_of_right_answers_is_of_a_turn_and_of_verdicts():
    one = episode((0.0, None), (1.0, None), (0.0, "horizon"))
    other = episode((0.0, None), (0.0, None), (1.0, "ungraded"))
    share = solved_share(pack_episodes([one, other], [0, 0]))
    close(share, [[0, 1 / 2, 0]] * 2)


RIGHT = broken("solved", 1.0)
FAILED_FIRST = episode((0.0, None), (0.0, "feedback_unavailable"))
THREE_TURNS = episode((0.0, None), (0.0, None), (1.0, "horizon"))


@pytest.mark.parametrize(
    ("episodes", "group", "gamma", "expected"),
    [
        # the continuation is that of siblings that went on, not of those right at once: 0.1 like
        # that of the equal; the own reward still counts, 0.05 less for the format
        ([RIGHT, MENDED, broken("feedback_unavailable")], None, 0.1, [1.0, 0.1, 0.1]),
        ([RIGHT, MENDED, broken("feedback_unavailable", -0.05)], None, 0.1, [1.0, 0.1, 0.05]),
        # without a verdict the whole return is the siblings' mean
        ([RIGHT, MENDED, broken("ungraded")], None, 0.1, [1.0, 0.1, 0.55]),
        # nobody went on: there is nothing to learn about the continuation, so it is 0 for everybody
        (
            [broken("prompt_too_long"), broken("feedback_unavailable", 0.2)],
            None,
            1.0,
            [0.0, 0.2],
        ),
        ([broken("ungraded")], None, 1.0, [0.0]),
        # an answer that nobody could grade is a missing continuation too
        ([MENDED, MENDED, UNGRADED], None, 0.5, [[0.5, 1.0]] * 3),
        # a group is made up for by its own siblings only
        (
            [MENDED, broken("ungraded"), FAILED, broken("feedback_unavailable")],
            [0, 0, 1, 1],
            1.0,
            [1.0, 1.0, 0.0, 0.0],
        ),
        # episode 0 went 0, 0, 1; 1 lost its third turn, 2 its second and third: it is handed on
        (
            [THREE_TURNS, FAILED_FIRST, broken("feedback_unavailable")],
            None,
            0.5,
            [0.25] * 3,
        ),
    ],
)
def test_returns_where_something_is_missing(episodes, group, gamma, expected):
    """`expected`: of the first turns, or of all turns of an episode."""
    sessions = pack_episodes(episodes, group or [0] * len(episodes))
    for own, values in zip(discounted_returns(sessions, gamma), expected, strict=True):
        values = values if isinstance(values, list) else [values]
        close(own[: len(values)], values)


# --- every group of a small game, with feedback that fails whatever the answer
# ---------------------------------------

DROP = 0.4


def first_turns(player, num, estimator):
    """What an estimator climbs with the first turn's part of the policy."""
    config = RLTFConfig(gamma=GAMMA, attempt=AttemptConfig(estimator=estimator))
    gradients = expected_gradients(player, num, config)[Role.ATTEMPT] / num
    return player.only(gradients, "answer", 0)


def parts_of(whole):
    """∇ of the two parts of J = E[r_1] + γ E[R_2], without failures."""
    first, both = (
        whole.only(whole.gradient(whole.objective(0, g)), "answer", 0) for g in (0.0, 1.0)
    )
    return first, GAMMA * (both - first)


@pytest.mark.parametrize("estimator", ["none", *BY_COHORT, "first_turn"])
@pytest.mark.parametrize(
    ("game", "num"),
    [(Game(drop=DROP), 2), (Game(length=2, drop=DROP), 2), (Game(vocab=3, drop=DROP), 3)],
)
def test_the_first_turn_climbs_both_parts_of_its_return_the_second_more_slowly(
    game, num, estimator
):
    """Of J = E[r_1] + γ E[R_2] the first part has the estimator's own factor, the second is scaled
    by one more number.

    That number is the share of episodes that go on, times, but for `none`, E[1 − 1/m] / (1 − 1/n):
    the mean that makes up for the others holds the own continuation too, m being the episodes that
    go on. The *direction* of each part is that of the game without failures.
    """
    first, later = parts_of(Player(replace(game, drop=0.0)))
    own = 1 - 1 / num if estimator in ("group_mean", "first_turn") else 1.0
    m = torch.arange(num).double()
    goes_on = Binomial(num - 1, torch.tensor(1 - DROP, dtype=torch.float64)).log_prob(m).exp()
    mean = (goes_on * m / (m + 1)).sum().item() / (1 - 1 / num)
    shrink = 1.0 if estimator == "none" else mean
    ours = first_turns(Player(game), num, estimator)
    check(ours, own * (first + (1 - DROP) * shrink * later))


@pytest.mark.parametrize("num", [2, 3])
def test_who_stops_early_because_it_is_right_is_not_made_to_look_better(num):
    """One wrong answer, which gets feedback unless that fails: it is worth what it is worth without
    failures.

    Only where nobody else went on either is there nothing to take, and its continuation counts 0.
    """
    game = Game(early_stop=True, drop=DROP)
    player, whole = Player(game), Player(replace(game, drop=0.0))
    first, later = parts_of(whole)
    nobody = (1 - whole.reach(1) * (1 - DROP)) ** (num - 1)
    check(first_turns(player, num, "none"), first + (1 - DROP * nobody) * later)
    ours, truth, naive = (
        first_turns(player, num, "ragged"),
        first + later,
        first + (1 - DROP) * later,
    )
    assert (ours * truth).sum() > 0
    assert (ours - truth).abs().max() < (naive - truth).abs().max()


def answers(*scores, text="same"):
    """An episode of answers with these scores, all with the same text."""
    return [
        Turn(
            Attempt((k,), (k, k), (-1.0, -1.0), text, True),
            Grade(score == 1.0, True, score=score),
            score,
            stop="horizon" if k + 1 == len(scores) else None,
        )
        for k, score in enumerate(scores)
    ]


RIGHT_RIGHT, WRONG_RIGHT = answers(1.0, 1.0), answers(0.0, 1.0)


def targets_of_group(sessions, reward, **distill):
    """Advantages of the rows of a group: of attempts, and of distilled answers (one number
    each).
    """
    config = RLTFConfig(distill=DistillConfig(**{"weight": 1.0, **distill}))
    episodes = [
        Episode(Problem("x", 0, {}, ""), s, tuple(shape_rewards(turns, RewardConfig(**reward))))
        for s, turns in enumerate(sessions)
    ]
    rows = [
        (row, s) for s, e in enumerate(episodes) for row in (*attempt_rows(e), *distill_rows(e))
    ]
    packed = pack_rows(
        [row for row, _ in rows],
        [s for _, s in rows],
        pack_episodes(episodes, [0] * len(episodes)),
        [row.log_probs for row, _ in rows],
    )
    advantages = targets_of(packed, config).advantages
    firsts = torch.stack([row[0] for row in packed.by_row(advantages)])  # a row's are all the same
    distilled = torch.tensor([row.role[0] == Role.DISTILL for row, _ in rows])
    return (
        firsts[~distilled],
        firsts[distilled],
        [row for row, _ in rows if row.role[0] == Role.DISTILL],
    )


@pytest.mark.parametrize(
    ("reward", "sessions", "expected"),
    [
        ({"turn_decay": 0.5}, [RIGHT_RIGHT] * 2 + [WRONG_RIGHT] * 2, [0.5] * 4),
        ({"intermediate": False}, [RIGHT_RIGHT] * 4, [0.0] * 4),
        ({"repetition_coef": 0.5}, [WRONG_RIGHT] * 4, [1.0] * 4),
    ],
)
def test_the_advantage_is_the_answers_own_reward_less_what_first_answers_earn(
    reward, sessions, expected
):
    close(targets_of_group(sessions, reward)[1], expected)


@pytest.mark.parametrize(
    "reward",
    [
        {"turn_decay": 0.5},
        {"intermediate": False},
        {"repetition_coef": 0.7},
        {"turn_decay": 0.3, "intermediate": False, "repetition_coef": 0.7},
    ],
)
@pytest.mark.parametrize("baseline", typing.get_args(Baseline))
def test_shaping_moves_attempts_and_nothing_of_distillation(baseline, reward):
    sessions = [
        answers(0.0, 1.0),
        answers(0.5, 0.0, 0.0),
        answers(1.0),
        answers(0.25, 0.5, 1.0),
    ]
    attempts, distilled, rows = targets_of_group(sessions, {}, baseline=baseline)
    moved, same, same_rows = targets_of_group(sessions, reward, baseline=baseline)
    assert torch.equal(distilled, same)
    assert rows == same_rows, "the rows carry the reward of the answer, too"
    assert not torch.allclose(attempts, moved)
