"""The multi-turn state machine with a scripted policy and a scripted provider, in lines and in
trees (one attempt, several revisions of it).
"""

import asyncio
import sys

import pytest

from rltf_verl.config import EpisodeConfig
from rltf_verl.envs.base import GradeUnavailable
from rltf_verl.episode.foreign import ForeignAttempt, attempt_of
from rltf_verl.episode.run import EpisodePlayer
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.types import Grade
from tests.support.acting_fakes import ScriptedActor
from tests.support.episode_fakes import (
    FIRST_PROMPT,
    PROBLEM,
    QUESTION,
    EchoEnv,
    Remark,
    ScriptedPolicy,
    ScriptedProvider,
    parts_with,
    play,
    seed_of_place,
    stops,
)

LONG = "a" * 50 + "END"


async def test_a_wrong_answer_gets_feedback_and_a_second_try():
    policy, provider = ScriptedPolicy(["no", "yes"]), ScriptedProvider("try yes")
    episode = await play(policy, provider, horizon=2)
    assert (episode.session_id, episode.num_shortened) == (3, 0)
    assert [(t.stop, t.error) for t in episode.turns] == [(None, None), ("solved", None)]
    assert [t.reward for t in episode.turns] == [0.0, 1.0]
    assert [t.feedback and t.feedback.text for t in episode.turns] == ["try yes", None]
    # a fresh conversation that quotes question, attempt and feedback; other messages stay
    assert policy.prompts == [FIRST_PROMPT, f"{FIRST_PROMPT}\n?no\n!try yes"]


async def test_both_stop_rules_can_be_switched():
    episode = await play(
        ScriptedPolicy(["yes", "yes"]), ScriptedProvider("f"), stop_when_solved_train=False
    )
    assert stops(episode) == [None, "horizon"]
    episode = await play(
        ScriptedPolicy(["yes"]), ScriptedProvider(), stop_when_solved_val=True, validate=True
    )
    assert stops(episode) == ["solved"]


@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("solved_at", [None, 0, 1, 2, 3, 4])
@pytest.mark.parametrize("validate", [True, False])
async def test_any_horizon_with_and_without_early_stop(horizon, solved_at, validate):
    """Training ends with the first right answer, validation at the horizon; feedback between two
    turns, never after.
    """
    answers = ["yes" if k == solved_at else f"no{k}" for k in range(horizon)]
    provider = Remark()
    episode = await play(ScriptedPolicy(answers), provider, horizon=horizon, validate=validate)
    solved = solved_at is not None and solved_at < horizon
    num = solved_at + 1 if solved and not validate else horizon
    assert [t.attempt.text for t in episode.turns] == answers[:num]
    assert stops(episode) == [None] * (num - 1) + [
        "solved" if solved and not validate else "horizon"
    ]
    assert [t.feedback is not None for t in episode.turns] == [True] * (num - 1) + [False]
    assert provider.asked == list(range(1, num))


async def test_no_feedback_ends_the_episode_and_keeps_its_turns_or_raises():
    episode = await play(ScriptedPolicy(["no"]), ScriptedProvider(None), on_error="stop_session")
    (turn,) = episode.turns
    assert (turn.stop, turn.error, turn.feedback) == (
        "feedback_unavailable",
        "scripted: nobody there",
        None,
    )
    with pytest.raises(FeedbackUnavailable, match="scripted: nobody there"):
        await play(ScriptedPolicy(["no"]), ScriptedProvider(None), on_error="raise")


async def test_no_feedback_falls_back_to_the_verdict():
    provider = ScriptedProvider("real", None)
    episode = await play(
        ScriptedPolicy(["no", "nope", "yes"]), provider, on_error="correctness", horizon=3
    )
    said = [turn.feedback for turn in episode.turns[:2]]
    assert [(one.provider, one.fallback) for one in said] == [
        ("scripted", False),
        ("correctness", True),
    ]
    assert [t.stop for t in episode.turns] == [None, None, "solved"]


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
    policy = ScriptedActor(["yes"])
    attempt = attempt_of(policy, (1,), (121,), (1,), (0.0,), vocabulary=128, ended=True, info={})
    episode = await EpisodePlayer(
        parts_with(EchoEnv(), ScriptedProvider(), horizon=1),
        policy,
        PROBLEM,
        QUESTION,
        session_id=0,
        validate=False,
        seed_of=seed_of_place,
        foreign=ForeignAttempt(attempt, reward),
    ).play()
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
    policy = ScriptedActor([])
    given = (1,), (121, 5), (1, 0), (-1.0, float("nan"))
    kept = attempt_of(policy, *given, vocabulary=128, ended=True, info={})
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


async def test_every_turn_is_sampled_with_its_own_seed_and_the_messages_are_not_touched():
    policy, before = ScriptedPolicy(["no", "nope", "yes"]), [dict(m) for m in QUESTION]
    await play(
        policy,
        ScriptedProvider("a", "b"),
        horizon=3,
        seeds=lambda place: 1000 + int(place.partition("/")[0]),
    )
    assert policy.prompts[2] == f"{FIRST_PROMPT}\n?nope\n!b", "the latest attempt and feedback only"
    assert policy.seeds == [1000, 1001, 1002]
    assert before == QUESTION


class JudgedEnv(EchoEnv):
    """Its judge goes down when it hears `down`."""

    async def agrade(self, problem, text):
        if "down" in text:
            raise GradeUnavailable("the judge is down; start it")
        return super().grade(problem, text)

    def grade(self, problem, text):
        raise AssertionError("it has to be asked asynchronously")


async def test_an_answer_that_nobody_can_grade_ends_the_episode():
    episode = await play(ScriptedPolicy(["no", "down"]), Remark(), horizon=3, env=JudgedEnv())
    assert stops(episode) == [None, "ungraded"]
    last = episode.turns[-1]
    assert (last.reward, last.error, last.grade.correct) == (
        0.0,
        "the judge is down; start it",
        False,
    )


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
    provider, policy = Remark(), ScriptedPolicy([answer])
    settings = {"horizon": 3, "stop_when_solved_val": stop_when_solved}
    episode = await EpisodePlayer(
        parts_with(EchoEnv(), provider, **settings),
        policy,
        PROBLEM,
        QUESTION,
        session_id=0,
        validate=True,
        seed_of=seed_of_place,
        most_turns=1,
    ).play()
    solved = stop_when_solved and answer == "yes"
    assert (stops(episode), provider.asked) == (["solved" if solved else "horizon"], [])
    assert (episode.turns[0].grade.correct, episode.horizon) == (answer == "yes", 1)
