"""UFO: a sentence that says nothing, a reward that decays, and a penalty for repeating oneself."""

import pytest

from rltf_verl.types import Role
from tests.recipes.seeds import play, rewards


def test_the_observation_is_the_question_all_attempts_and_the_sentence_after_each(config) -> None:
    (policy,) = play(config, [["a", "b", "yes"]]).policies
    last = policy.prompts[-1]
    assert [last.index(part) for part in ("Q?", "a\0", "b\0")] == sorted(
        last.index(p) for p in ("Q?", "a\0", "b\0")
    )
    assert last.count("Let's try again.") == 2
    assert "correct" not in last, "nothing else is said"


def test_decay_and_penalty_by_hand(config) -> None:
    """d^(k-1) for a right answer in turn k, minus 0.1 times the share of repeated answers."""
    episodes = play(
        config,
        [["yes"], ["a", "yes"], ["a", "b", "yes"], ["a", "a", "yes"], ["a", "a", "b", "b", "a"]],
    )
    by_turn = rewards(episodes)
    assert [own[-1] for own in by_turn] == pytest.approx(
        [1.0, 0.5, 0.25, 0.25 - 0.1 / 3, -0.1 * 3 / 5]
    )
    assert all(reward == 0.0 for own in by_turn for reward in own[:-1])


def test_who_is_right_sooner_has_the_higher_advantage_from_the_first_turn_on(config) -> None:
    episodes = play(config, [["yes"], ["a", "yes"], ["a", "a", "a", "a", "a"]])
    first = [row[0].item() for row in episodes.batch.by_row(episodes.targets.advantages)]
    mean = (1.0 + 0.5 - 0.1 * 4 / 5) / 3  # γ = 1: the first turn's return is the whole episode's
    assert first == pytest.approx([1.0 - mean, 0.5 - mean, -0.08 - mean])
    assert len(episodes.rows_of(Role.ATTEMPT)) == len(episodes.rows) == 3, (
        "one growing conversation, one row"
    )
