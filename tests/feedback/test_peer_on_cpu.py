"""A sibling's solution: always the same one, nobody waits for ever, nobody waits in a circle."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.episode.run import run_episode
from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.feedback.group import Group, Groups
from rltf_verl.types import Attempt, Grade, Problem, Turn
from tests.support.effort import examples
from tests.support.episode_fakes import parts_with
from tests.support.feedback_fakes import asked, turn

PEER = make_provider("peer", wait_s=5)


async def test_it_quotes_a_sibling_that_was_right():
    group = Group(2)
    group.graded(0, 0, "41", correct=False)
    group.graded(1, 0, "6 x 7 = 42", correct=True)
    said = await PEER.feedback(asked("41", group=group))
    assert (
        said.text == "Your previous attempt was incorrect. Another attempt at the same question was"
        " correct:\n\n6 x 7 = 42"
    )
    assert said.sees_reference


async def test_it_quotes_no_thoughts():
    group = Group(2)
    group.graded(0, 0, "43", correct=False)
    group.graded(1, 0, "<think>41?</think>\n\n6 x 7 = 42", correct=True)
    said = await PEER.feedback(asked("43", group=group))
    assert said.text.endswith("correct:\n\n6 x 7 = 42")


async def test_it_waits_for_those_behind():
    group = Group(3)
    group.graded(0, 0, "41", correct=False)
    waiting = asyncio.create_task(PEER.feedback(asked("41", group=group)))
    for episode, correct in ((1, False), (2, True)):
        await asyncio.sleep(0.01)
        assert not waiting.done()
        group.graded(episode, 0, f"by {episode}", correct=correct)
    assert (await waiting).text.endswith("by 2")


async def test_the_wait_is_bounded():
    start = time.monotonic()
    with pytest.raises(
        FeedbackUnavailable, match="peer: no other episode had solved problem 3 by turn 1"
    ):
        await make_provider("peer", wait_s=0.05).feedback(asked("41", group=Group(2)))
    assert 0.04 < time.monotonic() - start < 10


async def test_own_solutions_and_later_ones_do_not_count():
    group = Group(2)
    group.graded(0, 0, "mine", correct=True)
    group.graded(1, 0, "wrong", correct=False)
    group.graded(1, 1, "later", correct=True)
    with pytest.raises(FeedbackUnavailable):
        await PEER.feedback(asked("41", group=group))
    group.graded(0, 1, "43", correct=False)
    assert (await PEER.feedback(asked("41", "43", group=group))).text.endswith("later")


async def test_an_episode_that_ended_is_not_waited_for():
    group = Group(2)
    group.graded(0, 2, "41", correct=False)
    group.ended(1)
    start = time.monotonic()
    with pytest.raises(FeedbackUnavailable):
        await PEER.feedback(asked("40", "41", "41", group=group))
    assert time.monotonic() - start < 10


async def test_alone_and_correct():
    with pytest.raises(
        FeedbackUnavailable, match=r"plays alone; raise actor_rollout_ref\.rollout\.n"
    ):
        await PEER.feedback(asked("41"))
    assert (await PEER.feedback(asked(turn("42")))).text == "Your previous attempt was correct."


async def test_a_long_solution_keeps_its_end():
    group = Group(2)
    group.ended(0)
    group.graded(1, 0, " ".join(map(str, range(100))), correct=True)
    said = await make_provider("peer", num_words=3).feedback(asked("41", group=group))
    assert said.text.endswith(":\n\n… 97 98 99")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wait_s": -1}, r"rltf\.feedback\.wait_s=-1: must be at least 0"),
        ({"wait_s": float("nan")}, r"rltf\.feedback\.wait_s=nan"),
        ({"num_words": 0}, r"rltf\.feedback\.num_words=0: must be at least 1 or null"),
    ],
)
def test_options(options, message):
    with pytest.raises(ValueError, match=message):
        make_provider("peer", **options)


def test_the_latest_groups_are_remembered():
    groups = Groups(capacity=2)
    first = groups.of("a", 2)
    groups.of("b", 2)
    assert groups.of("a", 2) is first
    groups.of("c", 2)  # b goes: a was used after it
    assert groups.of("a", 2) is first
    assert groups.of("b", 4).size == 4


class Parity:
    """Right if the text ends in an even digit."""

    name = "parity"

    def grade(self, problem: Problem, text: str) -> Grade:
        return Grade(int(text.split()[-1]) % 2 == 0, format_ok=True)


class Slow:
    """Answers after a while that has nothing to do with what it answers."""

    prompt_budget = 10_000

    def __init__(
        self, episode: int, answers: list[int], delays: random.Random, breaks_at: int | None
    ) -> None:
        self.session, self.answers, self.delays, self.breaks_at, self.turn = (
            episode,
            answers,
            delays,
            breaks_at,
            0,
        )

    async def encode(self, messages) -> tuple[int, ...]:
        return tuple(map(ord, messages[-1]["content"]))

    async def sample(self, prompt_ids, seed) -> Attempt:
        await asyncio.sleep(self.delays.random() * 0.004)
        if self.turn == self.breaks_at:
            raise RuntimeError("the engine died")
        answer = self.answers[self.turn]
        self.turn += 1
        return Attempt(
            prompt_ids, (1,), None, f"by {self.session} turn {self.turn} {answer}", ended=True
        )


async def played(
    answers: list[list[int]], breaks: list[int | None], delays: int, n: int, wait_s: float = 20.0
):
    """Every episode's turns, or the error that ended it."""
    parts = parts_with(Parity(), make_provider("peer", wait_s=wait_s), horizon=3)
    group, rng = Group(n), random.Random(delays)

    def episode(i: int):
        policy = Slow(i, answers[i], rng, breaks[i])
        return run_episode(
            parts,
            policy,
            Problem("parity", 0, {}, "0"),
            [{"role": "user", "content": "?"}],
            session_id=i,
            validate=False,
            seed_of=lambda place: i * 1000 + len(place),
            group=group,
        )

    outcomes = await asyncio.gather(*map(episode, range(len(answers))), return_exceptions=True)
    return [
        repr(o) if isinstance(o, Exception) else [said_in(t) for t in o.turns] for o in outcomes
    ]


def said_in(turn: Turn) -> tuple:
    return turn.attempt.text, turn.feedback and turn.feedback.text, turn.error


GAMES = st.integers(2, 5).flatmap(
    lambda n: st.tuples(
        st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=n, max_size=n),
        st.lists(st.sampled_from([None, None, None, 0, 1, 2]), min_size=n, max_size=n),
    )
)


@given(game=GAMES, delays=st.tuples(st.integers(0, 99), st.integers(0, 99)))
@examples(40)
def test_no_group_hangs_and_who_is_faster_does_not_matter(game, delays):
    answers, breaks = game
    start = time.monotonic()
    one, other = (asyncio.run(played(answers, breaks, seed, len(answers))) for seed in delays)
    assert one == other
    assert time.monotonic() - start < 10, "nobody waited for the deadline"


async def test_episodes_that_never_start_cost_the_bounded_wait_only():
    outcome = await asyncio.wait_for(
        played([[1, 3, 5], [2, 2, 2]], [None, None], 0, n=8, wait_s=0.05), 10
    )
    assert outcome[0][0][1].endswith("by 1 turn 1 2")
