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
    text_of,
)
from tests.support.episode_rows import inline_rows

ANSWERS = {"0": "a", "1": "b", "1.1": "yes", "1.2": "c", "2": "yes", "2.1": "never", "2.2": "d"}
APPEND = {"context": "append", "revise": "compact_append"}


async def tree(**kwargs):
    policy, provider = ScriptedPolicy(ANSWERS), Remark()
    settings = {"horizon": 3, "branch_turn": 1, "branch_width": 3, **kwargs}
    return await play(policy, provider, **settings), policy, provider


async def test_each_revision_of_an_attempt_goes_on_alone_with_its_own_seed():
    episode, policy, provider = await tree()
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
    # feedback is asked for once per attempt, with the line that led there, without its siblings
    asked = sorted((r.turns[-1].attempt.text, len(r.turns)) for r in provider.requests)
    assert asked == [("a", 1), ("b", 2), ("c", 2)]
    assert policy.prompts.count(f"{FIRST_PROMPT}\n?a\n!not a") == 3
    assert policy.prompts.count(FIRST_PROMPT) == 1
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


LATE = {"0": "a", "1": "b", "2": "yes", "2.1": "no", "3": "never", "3.1": "d"}


@pytest.mark.parametrize(
    ("answers", "provider", "settings", "turns"),
    [
        # validation never branches
        (
            ANSWERS,
            Remark(),
            {"validate": True, "horizon": 3},
            [("a", None, None), ("b", 0, None), ("yes", 1, "horizon")],
        ),
        # a right attempt has no revisions
        ({"0": "yes"}, Remark(), {"horizon": 2}, [("yes", None, "solved")]),
        # the branch may come later
        (
            LATE,
            Remark(),
            {"horizon": 4, "branch_turn": 2},
            [
                ("a", None, None),
                ("b", 0, None),
                ("yes", 1, "solved"),
                ("no", 1, None),
                ("d", 3, "horizon"),
            ],
        ),
        # one branch may fail, and the others go on
        (
            ANSWERS,
            ScriptedProvider("f", None),
            {"horizon": 3},
            [("a", None, None), ("b", 0, "feedback_unavailable"), ("yes", 0, "solved")],
        ),
    ],
)
async def test_where_a_tree_branches(answers, provider, settings, turns):
    episode = await play(ScriptedPolicy(answers), provider, **{"branch_turn": 1, **settings})
    assert [(t.attempt.text, t.parent, t.stop) for t in episode.turns] == turns


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
        "".join(
            text_of(r.response_ids)[j] for j, x in enumerate(r.role) if x == Role.FEEDBACK_MODELING
        )
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
