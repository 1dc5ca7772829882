"""Guided exploration: hints where a whole group failed, stronger from turn to turn."""

import pytest
import torch

from rltf_verl.config.objectives import Loss
from rltf_verl.types import Role
from tests.recipes.seeds import hints, play, stops


def test_a_group_with_a_success_gets_no_hint_and_is_plain_grpo(config) -> None:
    episodes = play(config, [["no"], ["yes"], ["ne"]])
    assert hints(episodes) == [[], [], []]
    assert stops(episodes) == ["not_asked", "solved", "not_asked"]
    assert {row.role[0] for row in episodes.rows} == {Role.ATTEMPT}
    assert episodes.advantages(Role.ATTEMPT) == [
        (s, pytest.approx(r - 1 / 3)) for s, r in enumerate([0, 1, 0])
    ]


def test_help_grows_until_somebody_is_right(config) -> None:
    episodes = play(config, [["a", "b", "c", "yes"], ["d", "e", "f", "g"]])
    assert hints(episodes)[0] == ["(location on a)", "(hint on b)", "(full on c)"]
    assert stops(episodes) == ["solved", "horizon"]
    episodes = play(config, [["a", "yes"], ["d", "e"]])
    assert hints(episodes) == [["(location on a)"], ["(location on d)"]]
    assert stops(episodes) == ["solved", "not_asked"], "after turn 2 the group has an answer"


def test_what_a_hint_led_to_is_trained_behind_the_prompt_without_it(config) -> None:
    """First attempts 0, 0 and their ends 1, 0: mean 1/4. The ratio is to the policy that saw
    the hint, and clipped (tests/algos/test_mix_on_cpu.py)."""
    episodes = play(config, [["a", "yes"], ["d", "e"]], old=-3.0)
    (_, right), (_, missed) = episodes.rows_of(Role.DISTILL)
    first, hinted = (turn.attempt for turn in episodes.episodes[0].turns)
    assert "(location on a)" in episodes.policies[0].prompts[1]
    assert (right.prompt_ids, right.response_ids) == (first.prompt_ids, hinted.response_ids)
    assert missed.prompt_ids == first.prompt_ids
    assert episodes.advantages(Role.DISTILL) == [
        (0, pytest.approx(0.75)),
        (1, pytest.approx(-0.25)),
    ]
    assert episodes.advantages(Role.ATTEMPT) == [
        (0, pytest.approx(-0.25)),
        (1, pytest.approx(-0.25)),
    ]
    references = episodes.batch.by_row(episodes.targets.ref_log_probs)
    own = references[episodes.rows.index(right)]
    torch.testing.assert_close(own, torch.tensor(hinted.log_probs))
    assert config.distill.loss == Loss("ppo")
