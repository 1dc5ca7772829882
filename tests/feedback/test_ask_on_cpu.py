"""Feedback only where a whole group failed: nobody hangs, and who is faster does not matter."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.config import FeedbackConfig
from rltf_verl.feedback.group import Group
from rltf_verl.types import Problem, Turn
from tests.support.effort import examples
from tests.support.episode_fakes import LatePolicy, Remark, parts_with, play_parts
from tests.support.feedback_fakes import Sums

N = 4


async def test_a_group_failed_when_all_are_that_far_and_nobody_is_right():
    group = Group(2)
    group.note_grade(0, 0, "a", correct=False)
    waiting = asyncio.create_task(group.failed(0, 5))
    await asyncio.sleep(0.01)
    assert not waiting.done(), "the other one may still solve it"
    group.note_grade(1, 0, "b", correct=False)
    assert await waiting
    group.note_grade(1, 1, "c", correct=True)
    assert await group.failed(0, 5), "what is right later does not change it"
    assert not await group.failed(1, 5)


@pytest.mark.parametrize(("size", "own"), [(8, 3), (1, 0)])
async def test_the_first_right_answer_settles_it_the_own_one_too(size, own):
    group = Group(size)
    group.note_grade(own, 0, "right", correct=True)
    assert not await asyncio.wait_for(group.failed(0, 3600), 60), "it waits for no other"


async def test_the_wait_is_bounded_and_who_is_missing_counts_as_wrong():
    assert await asyncio.wait_for(Group(2).failed(0, 0.05), 60)


async def played(answers, *, breaks=None, delays=0, validate=False, group=True, **episode):
    """Every episode's turns, or the error that ended it."""
    asking = FeedbackConfig(ask="group_failed")
    parts = parts_with(Sums(), Remark(), asking, **{"horizon": 3, **episode})
    together, rng = Group(len(answers)) if group else None, random.Random(delays)
    breaks = breaks or [None] * len(answers)

    def session(i: int):
        policy = LatePolicy(list(map(str, answers[i])), delays=rng, breaks_at=breaks[i])
        problem = Problem("sums", 0, {}, "0")
        return play_parts(
            parts, policy, problem=problem, session_id=i, validate=validate, group=together
        )

    outcomes = await asyncio.gather(*map(session, range(len(answers))), return_exceptions=True)
    return [repr(o) if isinstance(o, Exception) else [said(t) for t in o.turns] for o in outcomes]


def said(turn: Turn) -> tuple[str, str | None, str | None]:
    return turn.attempt.text, turn.feedback and turn.feedback.text, turn.stop


HINTED = [[("1", "not 1", None), ("0", None, "solved")]]
RIGHT = [[("0", None, "not_asked")]]


@pytest.mark.parametrize(
    ("answers", "options", "turns"),
    [
        (
            [[1, 0], [0], [2, 0]],
            {},
            [[("1", None, "not_asked")], [("0", None, "solved")], [("2", None, "not_asked")]],
        ),
        # after turn 2 the group has an answer
        (
            [[1, 3, 4], [2, 0, 9]],
            {},
            [
                [("1", "not 1", None), ("3", None, "not_asked")],
                [("2", "not 2", None), ("0", None, "solved")],
            ],
        ),
        # without early stop a right answer gets no feedback either
        ([[0, 1, 1]], {"stop_when_solved_train": False}, RIGHT),
        ([[0]], {"stop_when_solved_train": False, "group": False}, RIGHT),
        # an episode that plays alone is its own group
        ([[1, 0]], {"group": False}, HINTED),
        ([[1, 0]], {}, HINTED),
        (
            [[1, 3, 4], [0]],
            {"validate": True},
            [[("1", "not 1", None), ("3", "not 3", None), ("4", None, "horizon")]],
        ),
    ],
)
async def test_only_groups_without_a_right_answer_get_hints_and_validations_always(
    answers, options, turns
):
    assert (await played(answers, **options))[: len(turns)] == turns


GAMES = st.tuples(
    st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=N, max_size=N),
    st.lists(st.sampled_from([None, None, None, 0, 1, 2]), min_size=N, max_size=N),
)


@given(game=GAMES, delays=st.tuples(st.integers(0, 99), st.integers(0, 99)))
@examples(40)
def test_no_group_hangs_and_who_is_faster_does_not_matter(game, delays):
    answers, breaks = game
    one, other = (
        asyncio.run(asyncio.wait_for(played(answers, breaks=breaks, delays=seed), 60))
        for seed in delays
    )
    assert one == other
    for turns in (session for session in one if not isinstance(session, str)):
        for k, (_, hint, stop) in enumerate(turns):
            solved = any(
                t[0] == "0" for other in one if not isinstance(other, str) for t in other[: k + 1]
            )
            assert hint is None or not solved, "nobody gets a hint in a group that has an answer"
            assert stop != "not_asked" or solved or any(isinstance(other, str) for other in one)
