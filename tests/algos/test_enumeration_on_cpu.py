"""Every group of episodes of a tiny game summed over: what the estimators of attempts estimate, in
exact numbers.

Turn k's part of the policy (what it does with the prompts of turn k) climbs J_k = E[Σ over the
attempts of turn k of their return]: every turn counts its return from itself on. Below, "the
gradient" is ∇J_k with respect to that part, times the number of episodes. The truth is J_k, written
down without our code and differentiated.
"""

import pytest
import torch
from torch.distributions import Binomial

from rltf_verl.config import AttemptConfig, RLTFConfig
from rltf_verl.types import Role
from tests.support.game import GAMMA, Game, Player, check, expected_gradients

LINE, LONG = Game(), Game(horizon=3)
WORDS = Game(length=2)
THREE_ANSWERS = Game(vocab=3)
STOPS, LONG_STOPS = Game(early_stop=True), Game(horizon=3, early_stop=True)
APPENDED = Game(horizon=3, append=True)


def attempts(player: Player, num: int, estimator: str, gamma: float = GAMMA) -> torch.Tensor:
    config = RLTFConfig(gamma=gamma, attempt=AttemptConfig(estimator=estimator))
    return expected_gradients(player, num, config)[Role.ATTEMPT] / num


def shrunk(player: Player, factors: list[float]) -> torch.Tensor:
    """Σ over turns of factor · gradient."""
    parts = [
        player.only(player.gradient(player.objective(k)), "answer", k) for k in range(len(factors))
    ]
    return sum(factor * part for factor, part in zip(factors, parts, strict=True))


@pytest.mark.parametrize("estimator", ["none", "ragged"])
@pytest.mark.parametrize(
    ("game", "num"),
    [
        (LINE, 2),
        (WORDS, 2),
        (THREE_ANSWERS, 3),
        (LONG, 2),
        (APPENDED, 2),
        (LINE, 1),
        (LONG_STOPS, 1),
        (STOPS, 3),
        (LONG_STOPS, 3),
    ],
)
def test_no_baseline_and_the_ragged_one_are_unbiased_whoever_stops_when(game, num, estimator):
    player = Player(game)
    check(attempts(player, num, estimator), shrunk(player, [1.0] * game.horizon))


@pytest.mark.parametrize(
    ("game", "num"),
    [
        *[(LINE, 2), (WORDS, 2), (THREE_ANSWERS, 3), (LONG, 2), (APPENDED, 2)],
        *[(STOPS, 2), (STOPS, 3), (LONG_STOPS, 2), (LONG_STOPS, 3)],
    ],
)
def test_biases_of_the_two_estimators_that_compare_within_a_turn(game, num):
    """A turn that is alone learns nothing. `leave_one_out` shrinks a turn by 1 − P(all others
    stopped earlier), `group_mean` by E[1 − 1/m] over the m episodes that reach it, itself included:
    by 1 − 1/n where nobody stops.
    """
    player = Player(game)
    one_out, mean, m = [], [], torch.arange(num, dtype=torch.float64)
    for k in range(game.horizon):
        reach = torch.tensor(player.reach(k), dtype=torch.float64).clamp(max=1.0)
        one_out.append(1 - (1 - reach) ** (num - 1))
        others = Binomial(num - 1, reach).log_prob(m).exp()
        mean.append((others * m / (m + 1)).sum())
    assert (one_out[-1] < 0.95) == (mean[0] > mean[-1] + 0.05) == game.early_stop
    check(attempts(player, num, "leave_one_out"), shrunk(player, one_out))
    check(attempts(player, num, "group_mean"), shrunk(player, mean))


@pytest.mark.parametrize(
    ("game", "num"),
    [(LINE, 2), (LONG, 2), (STOPS, 3), (LONG_STOPS, 2), (LINE, 1)],
)
def test_the_first_turns_mean_is_biased_by_the_discount_over_n(game, num):
    """Bias: an episode's own first return holds γ^k of the return of its turn k, hence 1 − γ^k/n.

    Early stop changes nothing: every episode has a first turn.
    """
    player = Player(game)
    factors = [1 - GAMMA**k / num for k in range(game.horizon)]
    check(attempts(player, num, "first_turn"), shrunk(player, factors))


@pytest.mark.parametrize("gamma", [0.0, GAMMA])
@pytest.mark.parametrize(("game", "num"), [(LINE, 1), (LINE, 2), (WORDS, 2), (THREE_ANSWERS, 3)])
def test_the_joined_mean_takes_back_a_share_of_what_the_turn_does_to_the_whole_episode(
    game, num, gamma
):
    """Bias: of 2n values in the mean two are the episode's own, so every turn loses 1/2n of the
    gradient of both.
    """
    player = Player(game)
    both = [player.gradient(player.objective(k, gamma)) for k in range(2)]
    truth = sum(player.only(both[k] - sum(both) / (2 * num), "answer", k) for k in range(2))
    check(attempts(player, num, "joined", gamma), truth)


@pytest.mark.parametrize("game", [LINE, LONG_STOPS])
def test_undiscounted_and_unbiased_is_the_gradient_of_the_sum_of_rewards(game):
    """γ = 1: all turns climb the same objective, the paper's J_Multi = E[Σ r]."""
    player = Player(game)
    total = sum(s.log_prob.exp() * sum(t.reward for t in s.turns) for s in player.sessions)
    check(attempts(player, 2, "ragged", gamma=1.0), player.gradient(total))


@pytest.mark.parametrize("estimator", ["group_mean", "leave_one_out"])
def test_a_group_of_one_has_no_attempt_gradient(estimator):
    assert not attempts(Player(Game(length=2)), 1, estimator).any()


@pytest.mark.parametrize(
    ("estimator", "factor"),
    [("leave_one_out", lambda n: (n - 2) / (n - 1)), ("group_mean", lambda n: 1 - 2 / n)],
)
@pytest.mark.parametrize("num_pairs", [1, 2])
def test_paired_episodes_shrink_the_first_turn_further(estimator, factor, num_pairs):
    """Bias: the partner has the same first answer, so it sits in the baseline of what it should be
    compared with.

    A group of one pair learns nothing from its first turn.
    """
    player, num = Player(LINE), 2 * num_pairs
    pairs = [
        (
            (a, b),
            s.probability
            * t.probability
            / player.log_prob(player.first_prompt, first(s)).exp().item(),
        )
        for a, s in enumerate(player.sessions)
        for b, t in enumerate(player.sessions)
        if first(s) == first(t)
    ]
    groups = pairs
    for _ in range(num_pairs - 1):
        groups = [((*g, *h), p * q) for g, p in groups for h, q in pairs]
    config = RLTFConfig(gamma=GAMMA, attempt=AttemptConfig(estimator=estimator))
    ours = expected_gradients(player, num, config, groups)[Role.ATTEMPT] / num
    later = 1.0 if estimator == "leave_one_out" else 1 - 1 / num  # second answers are sampled apart
    check(ours, shrunk(player, [factor(num), later]))


def first(episode) -> tuple[int, ...]:
    return episode.turns[0].attempt.response_ids
