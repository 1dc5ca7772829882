"""Every group of episodes of a tiny game summed over: what the roles beside the attempts estimate,
in exact numbers.

Distillation, imitation and feedback modelling raise log-probabilities of texts that were sampled
elsewhere: their truth is that expectation with the samples held fixed. Critiques are sampled, so
theirs is the gradient of a return.
"""

import pytest
import torch

from rltf_verl.config import (
    AttemptConfig,
    CritiqueConfig,
    DistillConfig,
    EpisodeConfig,
    FeedbackModelingConfig,
    ImitateConfig,
    RLTFConfig,
)
from rltf_verl.types import Role
from tests.support.game import GAMMA, Game, Player, check, expected_gradients

LINE, WORDS, STOPS = Game(), Game(length=2), Game(early_stop=True)
LONG_STOPS = Game(horizon=3, early_stop=True)
GAMES = [
    (LINE, 2),
    (WORDS, 2),
    (Game(vocab=3), 3),
    (STOPS, 3),
    (LONG_STOPS, 2),
]


def distilled(player, num, **distill):
    config = RLTFConfig(
        gamma=GAMMA, distill=DistillConfig(**{"weight": 1.0, "log_prob_floor": None, **distill})
    )
    gradients = expected_gradients(player, num, config)
    return gradients[Role.DISTILL] / num


def onto_first_prompt(player, value):
    """E[value(episode, last turn) · ∇ log π(y_K|x_0)], the samples held fixed."""
    total = torch.zeros(()).double()
    for s in player.sessions:
        if len(s.turns) > 1:
            last = s.turns[-1]
            log_prob = player.log_prob(player.first_prompt, last.attempt.response_ids)
            total = total + s.probability * value(s, last) * log_prob
    return player.gradient(total)


def mean_first_reward(player):
    return sum(s.probability * s.turns[0].reward for s in player.sessions)


@pytest.mark.parametrize(("game", "num"), [*GAMES, (WORDS, 1)])
def test_distillation_is_advantage_weighted_regression_onto_the_first_prompt(game, num):
    """E[-∇L] = N · E_{y1 ~ π(·|x1)}[(r1 - b) ∇ log π(y1|x0)].

    b holds the episode's own first reward too, so given the episode it is (r0 + (N-1) E[r0]) / N:
    the baseline is not independent of y1, which depends on y0 through the feedback. That is the
    paper's Algorithm 1, stated and not mended.
    """
    player = Player(game)
    mean = mean_first_reward(player)
    ours = distilled(player, num)
    check(
        ours,
        onto_first_prompt(
            player, lambda s, t: t.reward - (s.turns[0].reward + (num - 1) * mean) / num
        ),
    )
    assert not (
        ours - player.only(ours, "answer", 0)
    ).any()  # nothing is learned about any prompt but the first


@pytest.mark.parametrize(("game", "num"), GAMES)
def test_without_the_own_first_reward_the_baseline_is_the_students_success_rate(game, num):
    """leave_one_out: E[-∇L] = N · E[(r1 − E[r0]) ∇ log π(y1|x0)], a baseline that knows nothing of
    the episode.
    """
    player = Player(game)
    mean = mean_first_reward(player)
    check(
        distilled(player, num, baseline="leave_one_out"),
        onto_first_prompt(player, lambda s, t: t.reward - mean),
    )
    assert not distilled(player, 1, baseline="leave_one_out").any()


@pytest.mark.parametrize(("game", "num"), [(LINE, 2), (WORDS, 2), (WORDS, 1), (Game(vocab=3), 3)])
def test_the_joined_baseline_is_the_mean_of_first_attempts_and_refined_answers(game, num):
    """Given the episode its own two values are known: b = (R0 + r1 + (n − 1)(E[R0] + E[r1])) /
    2n.
    """
    player = Player(game)
    others = (num - 1) * sum(player.objective(k).item() for k in range(2))
    truth = onto_first_prompt(
        player, lambda s, t: t.reward - (sum(s.returns()) + others) / (2 * num)
    )
    check(distilled(player, num, baseline="joined"), truth)


@pytest.mark.parametrize(("game", "num"), [*GAMES, (WORDS, 1)])
def test_without_a_baseline_and_by_rejection(game, num):
    player = Player(game)
    check(distilled(player, num, baseline="none"), onto_first_prompt(player, lambda s, t: t.reward))
    ours = distilled(player, num, baseline="rejection")
    check(ours, onto_first_prompt(player, lambda s, t: float(t.grade.correct)))


@pytest.mark.parametrize(("game", "num"), [(LINE, 2), (WORDS, 2), (Game(vocab=3), 3)])
@pytest.mark.parametrize("baseline", ["second_turn", "second_turn_padded"])
def test_the_second_turns_baseline_subtracts_the_success_rate_given_feedback(game, num, baseline):
    """E[-∇L] = N (1 − 1/N) · E[(r1 − E[r1]) ∇ log π(y1|x0)]."""
    player = Player(game)
    mean = sum(s.probability * s.turns[1].reward for s in player.sessions)
    truth = onto_first_prompt(player, lambda s, t: t.reward - mean)
    check(distilled(player, num, baseline=baseline), (1 - 1 / num) * truth)


@pytest.mark.parametrize("game", [LINE, WORDS])
def test_with_the_samplers_probability_in_the_ratio_it_is_the_gradient_of_the_single_turn_reward(
    game,
):
    """Nobody stops, no baseline: E_{y1 ~ π(·|x1)}[ρ r1 ∇ log π(y1|x0)] = ∇ E_{y ~ π(·|x0)}[r].

    That is what the importance ratio of the paper is for; AWR leaves it out, which is another
    gradient. With answers of several tokens it is biased: the loss multiplies each token by its own
    ratio only.
    """
    player = Player(game)
    rewards = (player.log_prob(player.first_prompt, a).exp() * game.reward(a) for a in game.answers)
    truth = player.gradient(sum(rewards))
    ours = distilled(player, 2, baseline="none", reference="sampler")
    assert ((ours - truth).abs().max() > 1e-2) == (game is WORDS)
    if game is LINE:
        check(ours, truth)
        assert (distilled(player, 2, baseline="none") - truth).abs().max() > 1e-2


@pytest.mark.parametrize(("horizon", "early_stop"), [(2, False), (2, True), (3, True)])
def test_critiques_climb_the_return_of_the_turn_that_they_led_to(horizon, early_stop):
    """No baseline: ∇ E[R of turn k+1] with respect to what the critic says about turn k."""
    player = Player(Game(horizon=horizon, early_stop=early_stop, speaker="policy"))
    config = RLTFConfig(gamma=GAMMA, attempt=AttemptConfig(estimator="none"))
    ours = expected_gradients(player, 1, config)[Role.CRITIQUE]
    parts = [
        player.only(player.gradient(player.objective(k + 1)), "critique", k)
        for k in range(horizon - 1)
    ]
    check(ours, sum(parts))
    assert all(part.any() for part in parts)


@pytest.mark.parametrize(("num", "factor"), [(2, 1 / 2), (3, 2 / 3)])
def test_critiques_have_the_bias_of_the_turns_estimator(num, factor):
    player = Player(Game(speaker="policy"))
    truth = player.only(player.gradient(player.objective(1)), "critique", 0)
    for estimator, shrink in (("group_mean", factor), ("leave_one_out", 1.0), ("ragged", 1.0)):
        config = RLTFConfig(gamma=GAMMA, attempt=AttemptConfig(estimator=estimator))
        check(expected_gradients(player, num, config)[Role.CRITIQUE] / num, shrink * truth)
    config = RLTFConfig(gamma=GAMMA, critique=CritiqueConfig(weight=0.0))
    assert not expected_gradients(player, 2, config)[Role.CRITIQUE].any()


def feedback_likelihood(player, prompt_of):
    """∇ E[Σ_k log π(f_k | prompt_of(y_k))], the samples held fixed."""
    total = torch.zeros(()).double()
    for s in player.sessions:
        for turn in s.turns:
            if turn.feedback is not None:
                said = tuple(map(int, turn.feedback.text))
                total = total + s.probability * player.log_prob(prompt_of(turn.attempt), said)
    return player.gradient(total)


@pytest.mark.parametrize(
    "game",
    [
        Game(speaker="expert"),
        Game(speaker="expert", early_stop=True, horizon=3),
        Game(speaker="expert", early_stop=True),
    ],
)
def test_feedback_rows_climb_the_expected_log_likelihood_of_the_feedback(game):
    """E[Σ_k log π(f_k | critic prompt of y_k)], rollouts held fixed."""
    player = Player(game)
    config = RLTFConfig(
        gamma=GAMMA, feedback_modeling=FeedbackModelingConfig(weight=0.7, critic="compact")
    )
    ours = expected_gradients(player, 2, config)[Role.FEEDBACK_MODELING] / 2
    truth = feedback_likelihood(
        player, lambda attempt: tuple(1000 + ord(c) for c in f"Q\n?{attempt.text}\n!")
    )
    check(ours, 0.7 * truth)


@pytest.mark.parametrize("early_stop", [True, False])
def test_inline_feedback_climbs_its_log_likelihood_where_it_stands(early_stop):
    """Feedback in the appended conversation, and the attempts' gradient is what it is without
    it.
    """
    player = Player(Game(append=True, speaker="expert", early_stop=early_stop))
    append = EpisodeConfig(context="append")
    config = RLTFConfig(
        gamma=GAMMA,
        episode=append,
        feedback_modeling=FeedbackModelingConfig(weight=0.7, form="inline"),
    )
    gradients = expected_gradients(player, 2, config)
    truth = feedback_likelihood(
        player, lambda attempt: (*attempt.prompt_ids, *attempt.response_ids, 50)
    )
    check(gradients[Role.FEEDBACK_MODELING] / 2, 0.7 * truth)
    plain = expected_gradients(player, 2, RLTFConfig(gamma=GAMMA, episode=append))
    assert torch.equal(plain[Role.ATTEMPT], gradients[Role.ATTEMPT])
    assert not plain[Role.FEEDBACK_MODELING].any()


@pytest.mark.parametrize(("game", "num"), GAMES)
@pytest.mark.parametrize("source", ["revised", "all"])
def test_imitation_climbs_the_expected_log_likelihood_of_correct_last_answers(game, num, source):
    player = Player(game)
    config = RLTFConfig(gamma=GAMMA, imitate=ImitateConfig(weight=0.5, source=source))
    truth = onto_first_prompt(player, lambda s, t: float(t.grade.correct))
    if source == "all":
        at_once = [s for s in player.sessions if len(s.turns) == 1 and s.turns[0].grade.correct]
        total = sum(
            s.probability * player.log_prob(player.first_prompt, s.turns[0].attempt.response_ids)
            for s in at_once
        )
        truth = truth + player.gradient(total) if at_once else truth
    check(expected_gradients(player, num, config)[Role.IMITATE] / num, 0.5 * truth)
