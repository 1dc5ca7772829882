"""Feedback on another problem: never its own, the same whoever is faster, and nobody waits for
ever.
"""

import asyncio
import gc
import random
import weakref
from dataclasses import replace

import pytest

from rltf_verl.config.feedback import feedback_config
from rltf_verl.episode.parts import build_provider
from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackProvider, FeedbackUnavailable
from rltf_verl.feedback.group import Groups
from rltf_verl.types import Feedback
from tests.support.episode_fakes import LatePolicy, parts_with, play_parts
from tests.support.feedback_fakes import PROBLEM, Scripted, Sums, asked, turn

SIZE = 2


class About(FeedbackProvider):
    """Names the problem, the episode and the turn that it speaks of."""

    name, sees_reference, constant = "about", True, False

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def feedback(self, request):
        said = f"p{request.problem.index} s{request.session_id} t{len(request.turns)}"
        self.asked.append(said)
        if "silent" in request.turns[-1].attempt.text:
            raise FeedbackUnavailable(self.name, "nobody there")
        return Feedback(said, self.name, sees_reference=True)


def control(name, inner=None, wait_s=20.0):
    provider = make_provider(name, inner={"provider": "verifier"})
    provider.wait_s = wait_s
    provider.inner = inner or About()
    provider.sees_reference = True
    return provider


async def played(provider, sessions, seed=0, problems=None, horizon=3):
    """Play groups of `SIZE` episodes each: problem -> episode -> answers. What each turn's reader
    was told.
    """
    groups, rng = Groups(), random.Random(seed)
    problems = problems or [replace(PROBLEM, index=i, data={"i": i}) for i in range(len(sessions))]
    uids = [f"uid{rng.random()}" for _ in sessions]
    groups.announce(uids, SIZE)
    parts = parts_with(Sums(), provider, horizon=horizon)
    runs = [
        play_parts(
            parts,
            LatePolicy(answers, delays=rng),
            problem=problem,
            session_id=s,
            group=groups.of(uid, SIZE),
            seed_of=lambda place, p=problem.index, s=s: hash((p, s, len(place), int(place[0]))),
        )
        for uid, problem, group in zip(uids, problems, sessions, strict=True)
        for s, answers in enumerate(group)
    ]
    rng.shuffle(runs)
    return {
        (e.problem.index, e.session_id): [
            t.feedback.text if t.feedback else (t.stop, t.error) for t in e.turns
        ]
        for e in await asyncio.gather(*runs)
    }


WRONG = ["a", "b", "c"]
SESSIONS = [[WRONG, WRONG], [["a", "42"], WRONG], [["42"], WRONG]]


async def test_every_episode_hears_of_another_problem_at_its_own_turn():
    told = await played(control("shuffled"), SESSIONS)
    assert len(told) == 6
    for (problem, _), said in told.items():
        for k, text in enumerate(said):
            if isinstance(text, str):
                assert text.startswith("p")
                assert f"p{problem} " not in text, "never its own"
                assert text.endswith(f"t{k + 1}")


async def test_it_does_not_depend_on_who_is_faster():
    runs = [await played(control("shuffled"), SESSIONS, seed=seed) for seed in range(6)]
    assert all(run == runs[0] for run in runs)


async def test_the_inner_provider_is_asked_as_often_as_without_the_control():
    alone, inner = About(), About()
    await played(alone, SESSIONS)
    await played(control("shuffled", inner), SESSIONS)
    assert sorted(inner.asked) == sorted(alone.asked)


async def test_failures_of_the_inner_provider_stay_failures_and_hold_up_nobody():
    told = await played(control("shuffled"), [[["silent"], WRONG], [WRONG, WRONG]])
    assert told[0, 0] == [("feedback_unavailable", "about: nobody there")]
    assert all(isinstance(text, str) for text in told[1, 0][:-1])


async def test_the_same_problem_twice_is_not_another_one():
    told = await played(control("shuffled"), [[WRONG, WRONG]] * 2, problems=[PROBLEM, PROBLEM])
    assert {said[0][0] for said in told.values()} == {"feedback_unavailable"}
    assert all("no feedback on another problem" in said[0][1] for said in told.values())


async def test_right_attempts_are_told_so():
    group = Groups()
    group.announce(["a", "b"], 1)
    said = await control("shuffled").feedback(asked(turn("42"), group=group.of("a", 1)))
    assert said.text == "Your previous attempt was correct."


async def test_the_wait_is_bounded_and_an_episode_that_dies_is_not_waited_for():
    groups = Groups()
    groups.announce(["a", "b"], 1)
    request = replace(asked("41", group=groups.of("a", 1)), policy=LatePolicy([]))
    with pytest.raises(FeedbackUnavailable, match=r"^shuffled: "):
        await control("shuffled", wait_s=0.02).feedback(request)
    waiting = asyncio.create_task(control("shuffled", wait_s=600.0).feedback(request))
    await asyncio.sleep(0)
    groups.of("b", 1).note_end(0)
    with pytest.raises(FeedbackUnavailable, match="no feedback on another problem"):
        await asyncio.wait_for(waiting, 60)


def test_a_cohort_of_any_size_is_remembered():
    groups = Groups(capacity=2)
    groups.announce(range(9), 1)
    assert all(groups.of(key, 1).cohort for key in range(9))


async def test_a_group_is_dropped_when_all_its_episodes_have_ended():
    groups = Groups()
    groups.announce(["a", "b"], 2)
    group = groups.of("a", 2)
    group.note_grade(0, 0, "x" * 1000, correct=True)
    alive, still = weakref.ref(group), weakref.ref(groups.of("b", 2))
    group.note_end(0)
    group.note_end(0)
    assert groups.of("a", 2) is group
    group.note_end(1)
    del group
    gc.collect()
    assert alive() is None
    assert still() is not None


async def test_a_problem_that_is_played_alone_is_refused_with_the_reason():
    for group in (None, Groups().of("a", 1)):
        with pytest.raises(FeedbackUnavailable, match=r"^shuffled: .*alone"):
            await control("shuffled").feedback(asked("41", group=group))


@pytest.mark.parametrize("own_answers", [True, False])
async def test_the_leak_guard_looks_at_what_is_read(own_answers):
    """Another problem's answer is no leak; one's own is, wherever it comes from."""
    full = {"provider": "verifier", "level": "full"}
    block = {"provider": "shuffled", "inner": full, "guard": {"action": "drop"}}
    guarded = build_provider(feedback_config(block))
    texts = ["The answer is 42.", "The answer is 43."]
    guarded.inner.inner = Scripted(*(reversed(texts) if own_answers else texts))
    groups = Groups()
    groups.announce(["a", "b"], 1)
    requests = [
        replace(asked("41", group=groups.of(key, 1), problem=problem), policy=LatePolicy([]))
        for key, problem in (("a", PROBLEM), ("b", replace(PROBLEM, index=4, reference="43")))
    ]
    heard = await asyncio.gather(*map(guarded.feedback, requests), return_exceptions=True)
    assert [isinstance(one, FeedbackUnavailable) for one in heard] == [own_answers] * 2
    if own_answers:
        assert [one.withheld.text for one in heard] == texts
