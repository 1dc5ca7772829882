"""Which validations give feedback, and what an episode of the others is."""

import pytest

from rltf_verl.config import EpisodeConfig
from rltf_verl.episode.run import run_episode
from tests.support.episode_fakes import (
    PROBLEM,
    QUESTION,
    EchoEnv,
    Remark,
    ScriptedPolicy,
    parts_with,
    seed_of_place,
    stops,
)


def with_feedback(every, *, test_freq=5, last=23, horizon=3):
    config = EpisodeConfig(horizon=horizon, val_feedback_every=every)
    steps = [s for s in range(last + 1) if s % test_freq == 0 or s == last]
    horizons = {s: config.val_horizon(s, test_freq, last) for s in steps}
    assert set(horizons.values()) <= {1, horizon}
    return [s for s, h in horizons.items() if h == horizon]


@pytest.mark.parametrize(
    ("every", "last", "steps"),
    [
        (1, 23, [0, 5, 10, 15, 20, 23]),
        (2, 23, [0, 10, 20, 23]),
        (3, 20, [0, 15, 20]),
        (100, 20, [0, 20]),
        (None, 20, []),
    ],
)
def test_every_kth_validation_the_first_and_the_last_give_feedback(every, last, steps):
    assert with_feedback(every, last=last) == steps


def test_a_validation_off_the_rhythm_gives_feedback_and_one_on_it_is_what_it_was():
    config = EpisodeConfig(val_feedback_every=2)
    assert [config.val_horizon(s, 5, 100) for s in (3, 5, 10, 13)] == [2, 1, 2, 2]
    assert config.val_horizon(7, -1, None) == 2, "only before training"


@pytest.mark.parametrize("stop_when_solved", [False, True])
@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_a_first_answer_alone_asks_nobody_and_says_that_no_more_was_to_come(
    answer, stop_when_solved
):
    provider, policy = Remark(), ScriptedPolicy([answer])
    settings = {"horizon": 3, "stop_when_solved_val": stop_when_solved}
    episode = await run_episode(
        parts_with(EchoEnv(), provider, **settings),
        policy,
        PROBLEM,
        QUESTION,
        session_id=0,
        validate=True,
        seed_of=seed_of_place,
        horizon=1,
    )
    solved = stop_when_solved and answer == "yes"
    assert (stops(episode), provider.asked) == (["solved" if solved else "horizon"], [])
    assert (episode.turns[0].grade.correct, episode.horizon) == (answer == "yes", 1)
