"""Critique-GRPO: one group of first attempts and refined answers, and the shaped probability, whose
gradient is tested in tests/algos/test_mix_on_cpu.py.
"""

import math

import pytest

from rltf_verl.config.objectives import Loss
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
    assert config.distill.loss == Loss("shaped", gamma=0.1)


def test_the_standard_deviation_is_one_override_away_and_of_all_seven() -> None:
    """Two values at 5/7 and five at -2/7 of the mean: unbiased variance (2·25 + 5·4) / 49 / 6."""
    episodes = play(rltf_of("critique_grpo", "rltf.attempt.norm_by_std=true"), GROUP)
    std, mean = math.sqrt(70 / 294), 2 / 7
    by_hand = [(s, pytest.approx((r - mean) / std, abs=1e-5)) for s, r in ((1, 1), (2, 0), (3, 0))]
    assert episodes.advantages(Role.DISTILL) == by_hand
    assert episodes.advantages(Role.ATTEMPT)[0] == (0, pytest.approx((1 - mean) / std, abs=1e-5))
