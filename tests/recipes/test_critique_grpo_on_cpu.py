"""Critique-GRPO: one group of first attempts and refined answers, and the shaped probability."""

import math

import pytest
import torch

from rltf_verl.algos.role_loss import distill_loss
from rltf_verl.types import Role
from tests.recipes.composing import rltf_of
from tests.recipes.seeds import play

GROUP = [["yes"], ["no", "yes"], ["no", "ne"], ["ne", "no"]]


def test_refinements_see_the_critique_and_all_seven_are_compared_behind_the_first_prompt(
    config,
) -> None:
    """First attempts 1, 0, 0, 0 and refined answers 1, 0, 0: mean 2/7, no standard deviation."""
    episodes = play(config, GROUP)
    assert "(full on no)" in episodes.policies[1].prompts[1]
    assert "Q?" in episodes.policies[1].prompts[1]
    prompts = {row.prompt_ids for row in episodes.rows}
    assert prompts == {episodes.episodes[0].turns[0].attempt.prompt_ids}
    mean = 2 / 7
    assert episodes.advantages(Role.ATTEMPT) == [
        (s, pytest.approx(r - mean)) for s, r in enumerate([1, 0, 0, 0])
    ]
    assert episodes.advantages(Role.DISTILL) == [  # of those that were wrong
        (s, pytest.approx(r - mean)) for s, r in ((1, 1), (2, 0), (3, 0))
    ]


def test_the_standard_deviation_is_one_override_away_and_of_all_seven() -> None:
    """Two values at 5/7 and five at -2/7 of the mean: unbiased variance (2·25 + 5·4) / 49 / 6."""
    episodes = play(rltf_of("critique_grpo", "rltf.attempt.norm_by_std=true"), GROUP)
    std, mean = math.sqrt(70 / 294), 2 / 7
    by_hand = [(s, pytest.approx((r - mean) / std, abs=1e-5)) for s, r in ((1, 1), (2, 0), (3, 0))]
    assert episodes.advantages(Role.DISTILL) == by_hand
    assert episodes.advantages(Role.ATTEMPT)[0] == (0, pytest.approx((1 - mean) / std, abs=1e-5))


@pytest.mark.parametrize(
    ("probability", "factor"),
    [(0.1, 0.25), (0.3, 0.03 / 0.16), (0.01, 0.001 / 0.0121), (0.9, 0.09)],
)
def test_the_gradient_of_a_refined_token_is_the_shaped_one(config, probability, factor) -> None:
    """−a · γπ/(π+γ)²: most at π = γ, little where the policy is sure already."""
    episodes = play(config, GROUP)
    mask = episodes.batch.tokens(Role.DISTILL)
    log_prob = torch.full(mask.shape, math.log(probability), requires_grad=True)
    targets = episodes.targets
    loss = distill_loss(log_prob, targets.ref_log_probs, targets.advantages, mask, config.distill)
    torch.testing.assert_close(
        torch.autograd.grad(loss, log_prob)[0], torch.where(mask, -factor * targets.advantages, 0.0)
    )
    assert mask.any()
