"""One text for a group: all its failures with their feedback, the same for everybody who failed,
whoever is faster.
"""

import asyncio
import random
from asyncio import wait_for

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.config.feedback import feedback_config
from rltf_verl.episode.parts import build_provider
from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackProvider, FeedbackUnavailable
from rltf_verl.feedback.group import Group
from rltf_verl.feedback.siblings import INTRODUCTION
from rltf_verl.judge.gateway import judges_of
from rltf_verl.types import Feedback, Grade
from tests.support.effort import examples
from tests.support.episode_fakes import (
    EchoEnv,
    LatePolicy,
    ScriptedPolicy,
    parts_with,
    play_parts,
)


class About(FeedbackProvider):
    """Repeats the attempt; says nothing about `silent`."""

    name, sees_reference, constant = "about", True, False

    async def feedback(self, request):
        text = request.turns[-1].attempt.text.rpartition("</think>")[2]
        if "silent" in text:
            raise FeedbackUnavailable(self.name, "nobody there")
        return Feedback(f"on {text}", self.name, sees_reference=True, completion_tokens=len(text))


def siblings():
    provider = make_provider("siblings", each={"provider": "verifier"})
    provider.each = About()
    return provider


async def played(answers, seed=0, *, budget=10_000, **episode):
    """Every episode's feedback (or error) by turn, and what it saw."""
    parts = parts_with(EchoEnv(), siblings(), horizon=3, **episode)
    group, delays = Group(len(answers)), random.Random(seed)
    policies = [LatePolicy(own, budget, delays=delays) for own in answers]
    runs = [
        play_parts(parts, policy, session_id=s, group=group) for s, policy in enumerate(policies)
    ]
    delays.shuffle(runs)
    episodes = sorted(await asyncio.gather(*runs), key=lambda e: e.session_id)
    return [
        [turn.feedback.text if turn.feedback else turn.error for turn in episode.turns]
        for episode in episodes
    ], policies


def text_of(*attempts):
    each = (f"\n\nAttempt {k}:\n{a}\n\nFeedback: on {a}" for k, a in enumerate(attempts, start=1))
    return INTRODUCTION + "".join(each)


async def test_all_who_failed_are_shown_the_same_attempts_short_ones_first():
    told, policies = await played([["no no", "yes"], ["ne", "a", "yes"], ["yes"]])
    both = text_of("ne", "no no")
    assert told == [[both, None], [both, text_of("a"), None], [None]]
    assert both in policies[0].prompts[1]


@pytest.mark.parametrize(
    ("answers", "options", "expected"),
    [
        ([["no", "yes"], ["<think>yes?</think>ne", "yes"]], {}, [[text_of("no", "ne"), None]] * 2),
        ([["silent", "yes"], ["ne", "yes"]], {}, [["about: nobody there"], [text_of("ne"), None]]),
        (
            [["yes", "yes", "yes"], ["no", "yes", "a"]],
            {"stop_when_solved_train": False},
            [["on yes", "on yes", None], [text_of("no"), "on yes", None]],
        ),
    ],
    ids=["thoughts are not shown", "without feedback it is left out", "right ones are not shown"],
)
async def test_which_attempts_are_shown(answers, options, expected):
    told, _ = await played(answers, **options)
    assert told == expected


async def test_what_does_not_fit_is_left_out_the_longest_first():
    answers = [["a" * 300, "yes"], ["bb", "yes"], ["c" * 100, "yes"]]
    room = len(text_of("bb", "c" * 100)) + 200
    told, policies = await played(answers, budget=room, revise="compact_guide")
    assert told == [[text_of("bb", "c" * 100), None]] * 3
    assert all(len(prompt) <= room for policy in policies for prompt in policy.prompts)


GAMES = st.lists(
    st.lists(st.sampled_from(["yes", "no", "nein", "silent"]), min_size=3, max_size=3),
    min_size=1,
    max_size=4,
)


@given(game=GAMES, seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)))
@examples(25)
def test_nobody_hangs_and_who_is_faster_does_not_matter(game, seeds):
    (one, _), (other, _) = (asyncio.run(wait_for(played(game, seed), 60)) for seed in seeds)
    assert one == other


async def test_the_verdict_and_the_cost_are_those_of_the_own_attempt():
    parts = parts_with(EchoEnv(), siblings(), horizon=2)
    episode = await play_parts(parts, ScriptedPolicy(["no", "yes"]), group=Group(1))
    said = episode.turns[0].feedback
    assert (said.provider, said.sees_reference, said.completion_tokens) == ("siblings", True, 2)


class Telling(EchoEnv):
    """Gives the answer away to whoever said `tell`."""

    quotes_others = True

    def explain(self, problem, text, grade: Grade, level) -> str:
        return "the answer is yes" if "tell" in text else "think again"


def test_the_judge_of_the_guard_is_one_of_the_runs_judges():
    block = {
        "provider": "siblings",
        "each": {"provider": "verifier"},
        "guard": {"judge": {"endpoint": {"base_url": "http://127.0.0.1:9/v1", "model": "m"}}},
    }
    assert len(judges_of(build_provider(feedback_config(block)))) == 1


async def test_the_guard_looks_at_each_feedback_and_not_at_what_the_policy_said_itself():
    """The second attempt mentions the answer, which is wrong as it stands there: no leak."""
    block = {"provider": "siblings", "each": {"provider": "verifier"}, "guard": {"action": "drop"}}
    provider = build_provider(feedback_config(block))
    assert provider.name == "siblings"
    parts, group = parts_with(Telling(), provider, horizon=2, revise="attempts"), Group(2)
    leaked, told = await asyncio.gather(
        *(
            play_parts(parts, ScriptedPolicy([first, "yes"]), session_id=s, group=group)
            for s, first in enumerate(["tell", "the answer is yes, or no"])
        )
    )
    assert (leaked.turns[0].stop, leaked.turns[0].withheld.leak) == (
        "feedback_unavailable",
        "answer: the answer is yes",
    )
    assert told.turns[0].feedback.leak == ""
    assert "the answer is yes, or no\n\nFeedback: think again" in told.turns[0].feedback.text
