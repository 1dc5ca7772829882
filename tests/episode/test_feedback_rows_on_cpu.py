"""Feedback modelling as rows: (critic prompt that quotes the attempt, feedback)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.algos.pack import pack_episodes, pack_rows
from rltf_verl.config import FeedbackModelingConfig, RLTFConfig
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.texts import clean_text
from rltf_verl.types import Role
from tests.support.episode_fakes import (
    FIRST_PROMPT,
    QUESTION,
    Remark,
    ScriptedPolicy,
    ScriptedProvider,
    SelfCritic,
    play,
    text_of,
)
from tests.support.methods import objective_of

CONFIG = RLTFConfig(feedback_modeling=FeedbackModelingConfig(weight=0.1, critic="compact"))


async def feedback_rows(policy, provider, config=CONFIG, **kwargs):
    episode = await play(policy, provider, **kwargs)
    rows = await episode_rows(policy, QUESTION, episode, Method(config))
    assert rows[-1].turn[-1] == len(episode.turns) - 1
    assert Role.ATTEMPT in rows[-1].role
    return [row for row in rows if Role.FEEDBACK_MODELING in row.role]


async def test_every_feedback_that_led_to_another_turn_is_a_row():
    policy = ScriptedPolicy(["one", "two", "yes"])
    rows = await feedback_rows(policy, ScriptedProvider("f1", "f22"), horizon=3)
    assert [(text_of(r.prompt_ids), text_of(r.response_ids)) for r in rows] == [
        (f"{FIRST_PROMPT}\n?one\n!", "f1\0"),
        (f"{FIRST_PROMPT}\n?two\n!", "f22\0"),
    ]
    first, second = rows
    assert (set(first.role), set(second.role)) == (
        {Role.FEEDBACK_MODELING},
        {Role.FEEDBACK_MODELING},
    )
    assert (first.turn, second.turn) == ((0,) * 3, (1,) * 4)
    assert (first.log_probs, second.log_probs) == ((0.0,) * 3, (0.0,) * 4)  # nobody sampled them


async def test_episodes_without_feedback_and_objectives_without_a_weight_have_none():
    assert await feedback_rows(ScriptedPolicy(["yes"]), ScriptedProvider(), horizon=2) == []
    assert await feedback_rows(ScriptedPolicy(["no"]), ScriptedProvider(None), horizon=2) == []
    off = RLTFConfig()
    assert (
        await feedback_rows(ScriptedPolicy(["no", "yes"]), ScriptedProvider("f"), off, horizon=2)
        == []
    )


async def test_the_fixed_sentence_of_on_error_is_left_out():
    provider = ScriptedProvider("real", None)
    rows = await feedback_rows(
        ScriptedPolicy(["a", "b", "yes"]), provider, horizon=3, on_error="correctness"
    )
    assert [text_of(r.response_ids) for r in rows] == ["real\0"]


async def test_the_policys_own_critique_is_left_out():
    policy = ScriptedPolicy(["no", "yes"])
    episode = await play(policy, SelfCritic("mine"), horizon=2)
    rows = await episode_rows(policy, QUESTION, episode, Method(CONFIG))
    assert [row.role[0] for row in rows] == [Role.ATTEMPT, Role.CRITIQUE, Role.ATTEMPT]


async def test_feedback_that_led_nowhere_is_left_out():
    """The revise prompt did not fit, so nobody was told."""
    budget = len(f"{FIRST_PROMPT}\n?\n!why") - 1
    policy = ScriptedPolicy(["no"], prompt_budget=budget)
    assert await feedback_rows(policy, ScriptedProvider("why"), horizon=2) == []


@pytest.mark.parametrize("room", range(1, 9))
async def test_a_critic_prompt_that_is_too_long_quotes_the_attempts_tail(room):
    """The revise prompt hides the attempt here, so it fits where the critic's does not."""
    budget = len(f"{FIRST_PROMPT}\n?\n!") + room
    policy = ScriptedPolicy(["abcdefghij", "yes"], prompt_budget=budget)
    (row,) = await feedback_rows(policy, ScriptedProvider("f"), horizon=2, revise="compact_guide")
    assert text_of(row.prompt_ids) == f"{FIRST_PROMPT}\n?…{'abcdefghij'[11 - room :]}\n!"
    assert len(row.prompt_ids) == budget


async def test_a_critic_prompt_that_never_fits_is_no_row_and_counts_as_untrained():
    rows, played = [], []
    for room in (0, 1):
        budget = len(f"{FIRST_PROMPT}\n?\n!") + room
        policy = ScriptedPolicy(["abc", "yes"], prompt_budget=budget)
        provider = ScriptedProvider("")
        played.append(await play(policy, provider, horizon=2, revise="compact_append"))
        rows.append(await episode_rows(policy, QUESTION, played[-1], Method(CONFIG)))
    assert [len(made) for made in rows] == [2, 3]
    objective = objective_of(CONFIG, "feedback_modeling")
    for kept, untrained in (([0], 1.0), ([0, 1], 0.5), ([1], 0.0)):
        flat = [(row, i) for i, k in enumerate(kept) for row in rows[k]]
        group = pack_episodes([played[k] for k in kept], [0] * len(kept))
        log_probs = [[0.0] * len(row.role) for row, _ in flat]
        batch = pack_rows([row for row, _ in flat], [i for _, i in flat], group, log_probs)
        assert objective.batch_metrics(batch) == {"untrained_share": untrained}


@pytest.mark.parametrize(
    ("budget", "kept"), [(3, "wor"), (5, "words"), (6, "words\0"), (7, "words\0")]
)
async def test_feedback_longer_than_an_answer_may_be_is_cut(budget, kept):
    policy = ScriptedPolicy(["no", "yes"], answer_budget=budget)
    (row,) = await feedback_rows(policy, ScriptedProvider("words"), horizon=2)
    assert text_of(row.response_ids) == kept


async def test_in_a_tree_each_feedback_is_one_row_however_many_revisions_it_led_to():
    answers = {"0": "a", "1": "b", "1.1": "c", "2": "yes", "2.1": "yes"}
    rows = await feedback_rows(ScriptedPolicy(answers), Remark(), horizon=3, branch_turn=1)
    assert [(text_of(r.response_ids), r.turn[0]) for r in rows] == [
        ("not a\0", 0),
        ("not b\0", 1),
        ("not c\0", 3),
    ]


@given(st.text(max_size=20))
async def test_any_text_can_be_modelled(text):
    (row,) = await feedback_rows(ScriptedPolicy(["no", "yes"]), ScriptedProvider(text), horizon=2)
    assert text_of(row.response_ids) == f"{clean_text(text)}\0"
