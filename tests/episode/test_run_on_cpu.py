"""The multi-turn state machine with a scripted policy and a scripted provider, in lines and in
trees (one attempt, several revisions of it).
"""

import asyncio
import sys

import pytest

from rltf_verl.config import EpisodeConfig
from rltf_verl.episode.foreign import ForeignAttempt, attempt_of
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.types import Grade
from tests.support.acting_fakes import ScriptedActor
from tests.support.episode_fakes import (
    FIRST_PROMPT,
    QUESTION,
    EchoEnv,
    Remark,
    ScriptedPolicy,
    ScriptedProvider,
    parts_with,
    play,
    play_parts,
    seed_of_place,
    stops,
)

LONG = "a" * 50 + "END"


async def test_a_wrong_answer_gets_feedback_and_another_try():
    policy, before = ScriptedPolicy(["no", "nope", "yes"]), [dict(m) for m in QUESTION]
    episode = await play(policy, ScriptedProvider("try yes", "b"), horizon=3)
    assert (episode.session_id, episode.num_shortened) == (3, 0)
    assert [(t.stop, t.error) for t in episode.turns] == [(None, None)] * 2 + [("solved", None)]
    assert [t.reward for t in episode.turns] == [0.0, 0.0, 1.0]
    assert [t.feedback and t.feedback.text for t in episode.turns] == ["try yes", "b", None]
    # a fresh conversation that quotes question, latest attempt and feedback; other messages stay
    second, third = f"{FIRST_PROMPT}\n?no\n!try yes", f"{FIRST_PROMPT}\n?nope\n!b"
    assert policy.prompts == [FIRST_PROMPT, second, third]
    assert policy.seeds == list(map(seed_of_place, "012"))
    assert before == QUESTION


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("solved_at", [None, 0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    ("validate", "settings", "stops_early"),
    [
        (False, {}, True),
        (False, {"stop_when_solved_train": False}, False),
        (True, {}, False),
        (True, {"stop_when_solved_val": True}, True),
    ],
)
async def test_any_horizon_with_and_without_early_stop(
    horizon, solved_at, validate, settings, stops_early
):
    """Training ends with the first right answer, validation at the horizon; feedback between two
    turns, never after.
    """
    answers = ["yes" if k == solved_at else f"no{k}" for k in range(horizon)]
    policy, provider = ScriptedPolicy(answers), Remark()
    episode = await play(policy, provider, horizon=horizon, validate=validate, **settings)
    solved = stops_early and "yes" in answers
    num = solved_at + 1 if solved else horizon
    assert [t.attempt.text for t in episode.turns] == answers[:num]
    assert stops(episode) == [None] * (num - 1) + ["solved" if solved else "horizon"]
    assert [t.feedback is not None for t in episode.turns] == [True] * (num - 1) + [False]
    assert provider.asked == list(range(1, num))


async def test_no_feedback_raises_where_that_is_wanted():
    with pytest.raises(FeedbackUnavailable, match="scripted: nobody there"):
        await play(ScriptedPolicy(["no"]), ScriptedProvider(None), on_error="raise")


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: sys.exit("usage"), "SystemExit: usage"),
        (lambda: None, "TypeError: grade() returned NoneType, not a Grade"),
        (lambda: Grade(True, True, parsed=12), "TypeError: parsed must be a text or None, not int"),
        (lambda: (_ for _ in ()).throw(asyncio.CancelledError), "CancelledError"),
        (lambda: (_ for _ in ()).throw(KeyboardInterrupt), "KeyboardInterrupt"),
    ],
)
@pytest.mark.parametrize("is_async", [True, False])
async def test_however_a_grader_fails_the_episode_goes_on(failure, said, is_async):
    class Fails(EchoEnv):
        def grade(self, problem, text):
            return failure() if text == "boom" else super().grade(problem, text)

    class FailsLater(Fails):
        async def agrade(self, problem, text):
            return super().grade(problem, text)

    env = FailsLater() if is_async else Fails()
    episode = await play(ScriptedPolicy(["boom", "yes"]), ScriptedProvider("f"), env=env, horizon=2)
    assert [turn.grade.error for turn in episode.turns] == [said, None]
    assert [turn.attempt.text for turn in episode.turns] == ["boom", "yes"]
    assert [turn.reward for turn in episode.turns] == pytest.approx([-0.1, 1.0])


@pytest.mark.parametrize("reward", [float("nan"), float("-inf"), 2e6])
async def test_another_loops_reward_out_of_range_is_an_error_of_its_grader(reward):
    policy, parts = ScriptedActor(["yes"]), parts_with(EchoEnv(), ScriptedProvider(), horizon=1)
    attempt = attempt_of(policy, (1,), (121,), (1,), (0.0,), vocabulary=128, ended=True, info={})
    episode = await play_parts(parts, policy, foreign=ForeignAttempt(attempt, reward))
    assert episode.turns[0].grade.error.endswith("must be a number from -1e6 to 1e6; scale it")


@pytest.mark.parametrize(
    ("ids", "log_probs", "named"),
    [
        ((121, 128), (-1.0, -1.0), "128"),
        ((121, -1), (-1.0, -1.0), "128"),
        ((121, 5), (-1.0, float("nan")), "log-prob"),
        ((121, 5), (-1.0, float("-inf")), "log-prob"),
        ((121, 5), (0.5, -1.0), "log-prob"),
        ((121,) * 9, (-1.0,) * 9, "8 response tokens"),
    ],
)
def test_another_loops_tokens_out_of_range_are_refused(ids, log_probs, named):
    policy = ScriptedActor([], response_budget=8)
    with pytest.raises(ValueError, match=named):
        attempt_of(
            policy, (1,), ids, (1,) * len(ids), log_probs, vocabulary=128, ended=True, info={}
        )


def test_another_loops_observations_need_no_log_prob():
    given = (1,), (121, 5), (1, 0), (-1.0, float("nan"))
    kept = attempt_of(ScriptedActor([]), *given, vocabulary=128, ended=True, info={})
    assert kept.log_probs == (-1.0, 0.0)


@pytest.mark.parametrize("room", range(1, 53))
async def test_a_long_attempt_is_quoted_by_its_longest_tail_that_fits(room):
    """The marker takes one token; question and feedback stay whole."""
    frame = len(f"{FIRST_PROMPT}\n?\n!why")
    policy = ScriptedPolicy([LONG, "yes"], prompt_budget=frame + room)
    episode = await play(policy, ScriptedProvider("why"), horizon=2)
    tail = LONG[len(LONG) - (room - 1) :]
    assert policy.prompts[1] == f"{FIRST_PROMPT}\n?…{tail}\n!why"
    assert (episode.num_shortened, stops(episode)) == (1, [None, "solved"])
    assert episode.turns[0].attempt.text == LONG


@pytest.mark.parametrize("answer", [LONG, "n", ""])
async def test_when_not_even_the_marker_fits_the_episode_ends(answer):
    budget = len(f"{FIRST_PROMPT}\n?\n!why") - 1
    episode = await play(
        ScriptedPolicy([answer], prompt_budget=budget), ScriptedProvider("why"), horizon=2
    )
    assert (stops(episode), episode.num_shortened) == (["prompt_too_long"], 0)
    assert episode.turns[0].feedback.text == "why"


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
    config = EpisodeConfig(horizon=3, val_feedback_every=every)
    at = [s for s in range(last + 1) if s % 5 == 0 or s == last]
    assert [config.val_horizon(s, 5, last) for s in at] == [3 if s in steps else 1 for s in at]


def test_a_validation_off_the_rhythm_gives_feedback_and_one_on_it_is_what_it_was():
    config = EpisodeConfig(val_feedback_every=2)
    assert [config.val_horizon(s, 5, 100) for s in (3, 5, 10, 13)] == [2, 1, 2, 2]
    assert config.val_horizon(7, -1, None) == 2, "only before training"


@pytest.mark.parametrize("stop_when_solved", [False, True])
@pytest.mark.parametrize("answer", ["yes", "no"])
async def test_a_first_answer_alone_asks_nobody_and_says_that_no_more_was_to_come(
    answer, stop_when_solved
):
    provider, settings = Remark(), {"horizon": 3, "stop_when_solved_val": stop_when_solved}
    parts = parts_with(EchoEnv(), provider, **settings)
    episode = await play_parts(parts, ScriptedPolicy([answer]), validate=True, most_turns=1)
    solved = stop_when_solved and answer == "yes"
    assert (stops(episode), provider.asked) == (["solved" if solved else "horizon"], [])
    assert (episode.turns[0].grade.correct, episode.horizon) == (answer == "yes", 1)
