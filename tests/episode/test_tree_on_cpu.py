"""Tree rollouts: one attempt, several revisions of it."""

import asyncio

import pytest

from rltf_verl.config import EpisodeConfig
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.types import Role
from tests.support.episode_fakes import (
    FIRST_PROMPT,
    Remark,
    ScriptedPolicy,
    ScriptedProvider,
    play,
    seed_of_place,
    stops,
    text_of,
)
from tests.support.episode_rows import inline_rows

ANSWERS = {"0": "a", "1": "b", "1.1": "yes", "1.2": "c", "2": "yes", "2.1": "never", "2.2": "d"}
APPEND = {"context": "append", "revise": "compact_append"}


async def tree(**kwargs):
    policy, provider = ScriptedPolicy(ANSWERS), Remark()
    settings = {"horizon": 3, "branch_turn": 1, "branch_width": 3, **kwargs}
    return await play(policy, provider, **settings), policy, provider


async def test_an_attempt_gets_several_revisions_and_each_goes_on_alone():
    episode, _, _ = await tree()
    assert [(t.attempt.text, t.parent, t.stop) for t in episode.turns] == [
        ("a", None, None),
        ("b", 0, None),
        ("yes", 1, "solved"),
        ("yes", 0, "solved"),
        ("c", 0, None),
        ("d", 4, "horizon"),
    ]
    assert (
        len(episode.turns) < EpisodeConfig(horizon=3, branch_turn=1, branch_width=3).num_nodes == 7
    )


async def test_feedback_is_asked_for_once_per_branched_attempt():
    _, policy, provider = await tree()
    assert sorted(r.turns[-1].attempt.text for r in provider.requests) == ["a", "b", "c"]
    assert [len(r.turns) for r in provider.requests] == [
        1,
        2,
        2,
    ]  # the line that led there, without its siblings
    assert policy.prompts.count(f"{FIRST_PROMPT}\n?a\n!not a") == 3
    assert policy.prompts.count(FIRST_PROMPT) == 1


async def test_every_sample_of_a_tree_has_its_own_seed():
    _, policy, provider = await tree()
    seeds = policy.seeds + [r.seed for r in provider.requests]
    assert len(set(seeds)) == len(seeds) == 9
    assert {seed_of_place(p) for p in ("1", "1.1", "1.2")} <= set(policy.seeds)
    assert {
        seed_of_place("0/feedback"),
        seed_of_place("1/feedback"),
        seed_of_place("1.2/feedback"),
    } == {r.seed for r in provider.requests}


async def test_the_first_branch_is_the_line_that_would_have_been_played_without_a_tree():
    line = await play(ScriptedPolicy(ANSWERS), Remark(), horizon=3)
    branched, _, _ = await tree()
    assert [t.attempt for t in line.turns] == [t.attempt for t in branched.turns[:3]]


async def test_validation_never_branches():
    episode, _, _ = await tree(validate=True)
    assert [(t.attempt.text, t.parent) for t in episode.turns] == [
        ("a", None),
        ("b", 0),
        ("yes", 1),
    ]


async def test_a_right_attempt_has_no_revisions():
    policy = ScriptedPolicy({"0": "yes"})
    assert stops(await play(policy, Remark(), horizon=2, branch_turn=1)) == ["solved"]


async def test_the_branch_may_come_later():
    answers = {"0": "a", "1": "b", "2": "yes", "2.1": "no", "3": "never", "3.1": "d"}
    episode = await play(ScriptedPolicy(answers), Remark(), horizon=4, branch_turn=2)
    assert [(t.attempt.text, t.parent) for t in episode.turns] == [
        ("a", None),
        ("b", 0),
        ("yes", 1),
        ("no", 1),
        ("d", 3),
    ]


async def test_one_branch_may_fail_and_the_others_go_on():
    episode = await play(
        ScriptedPolicy(ANSWERS), ScriptedProvider("f", None), horizon=3, branch_turn=1
    )
    assert [(t.attempt.text, t.stop) for t in episode.turns] == [
        ("a", None),
        ("b", "feedback_unavailable"),
        ("yes", "solved"),
    ]


async def test_in_an_appended_context_the_shared_turn_is_trained_once():
    """The first revision continues its row; the siblings have it in their prompt."""
    episode, _, _ = await tree(**APPEND)
    rows = inline_rows(episode)
    texts = [(text_of(r.prompt_ids), text_of(r.response_ids)) for r in rows]
    shared = f"{FIRST_PROMPT}a\0<user>!not a"
    assert texts == [
        (FIRST_PROMPT, "a\0<user>!not ab\0<user>!not byes\0"),
        (shared, "yes\0"),
        (shared, "c\0<user>!not cd\0"),
    ]
    trained = [
        turn
        for row in rows
        for turn, role in zip(row.turn, row.role, strict=True)
        if role == Role.ATTEMPT
    ]
    assert len(trained) == sum(len(t.attempt.response_ids) for t in episode.turns)
    modelled = [
        "".join(text_of(r.response_ids)[j] for j, x in enumerate(r.role) if x == Role.FEEDBACK)
        for r in rows
    ]
    assert modelled == ["not anot b", "", "not c"]  # each feedback once


class OneBranchFails(Remark):
    """Unavailable for the branch that answered `no`; says when others are asked."""

    async def feedback(self, request):
        if len(request.turns) == 2:
            if request.turns[-1].attempt.text == "no":
                raise FeedbackUnavailable(self.name, "nobody there")
            await asyncio.sleep(0.05)
        return await super().feedback(request)


async def test_with_raise_the_other_branches_end_too():
    provider = OneBranchFails()
    policy = ScriptedPolicy({"0": "1", "1": "no", "1.1": "2"})
    with pytest.raises(FeedbackUnavailable):
        await play(policy, provider, horizon=3, branch_turn=1, on_error="raise")
    await asyncio.sleep(0.1)
    assert provider.asked == [1], "a branch of a dead session went on"
