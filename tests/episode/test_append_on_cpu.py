"""The appended context (one growing chat, one row, and the feedback's place in it), and feedback
modelling as rows: (critic prompt that quotes the attempt, feedback).
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.config import EpisodeConfig, FeedbackModelingConfig, RLTFConfig
from rltf_verl.episode.revise import inserted_span
from rltf_verl.episode.rows import attempt_rows
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.texts import clean_text
from rltf_verl.types import CONTEXT, Role
from tests.support.effort import examples
from tests.support.episode_fakes import (
    FIRST_PROMPT,
    QUESTION,
    ScriptedPolicy,
    ScriptedProvider,
    play,
    stops,
    text_of,
)
from tests.support.episode_rows import attempt, inline_rows
from tests.support.methods import objective_of
from tools.parity.pack import pack_episodes, pack_rows

APPEND = {"context": "append", "revise": "compact_append"}


async def test_each_prompt_goes_on_from_the_sampled_ids_and_all_turns_share_one_row():
    policy = ScriptedPolicy(["no", "ne", "yes"])
    episode = await play(policy, ScriptedProvider("f1", "!!"), horizon=3, **APPEND)
    assert policy.prompts == [
        FIRST_PROMPT,
        f"{FIRST_PROMPT}no\0<user>!f1",
        f"{FIRST_PROMPT}no\0<user>!f1ne\0<user>!!!",
    ]

    (row,) = attempt_rows(episode)
    assert text_of(row.prompt_ids) == FIRST_PROMPT
    assert text_of(row.response_ids) == "no\0<user>!f1ne\0<user>!!!yes\0"
    a, c = int(Role.ATTEMPT), CONTEXT
    assert row.role == (a,) * 3 + (c,) * 9 + (a,) * 3 + (c,) * 9 + (a,) * 4
    assert row.turn == (0,) * 12 + (1,) * 12 + (2,) * 4
    assert row.rewards == (0.0,) * 27 + (1.0,)


async def test_inline_feedback_tokens_get_a_role_and_nothing_else_changes():
    episode = await play(
        ScriptedPolicy(["no", "ne", "yes"]), ScriptedProvider("f1", "f22"), horizon=3, **APPEND
    )
    (plain,), (inline,) = attempt_rows(episode), inline_rows(episode)
    assert predicted(inline) == "f1f22"
    changed = [j for j, role in enumerate(inline.role) if role != plain.role[j]]
    # credited with the attempt that it is about
    assert [inline.turn[j] for j in changed] == [0, 0, 1, 1, 1]
    for name in ("prompt_ids", "response_ids", "turn", "log_probs", "rewards"):
        assert getattr(inline, name) == getattr(plain, name)


async def test_the_user_turn_can_be_the_feedback_verbatim():
    """As in verl's interactions, where it was what `generate_response` returned."""
    policy = ScriptedPolicy(["no", "yes"])
    await play(policy, ScriptedProvider("f1 {{ x }}\n"), context="append", revise="verbatim_append")
    assert policy.prompts[1] == f"{FIRST_PROMPT}no\0<user>f1 {{{{ x }}}}\n"


@pytest.mark.parametrize("room", [-1, 0])
async def test_a_conversation_that_does_not_fit_ends_the_episode(room):
    """Nothing is cut out of what was said: at one token too many the episode ends with the turn it
    has.
    """
    budget = len(f"{FIRST_PROMPT}one\0<user>!f1") + room
    policy = ScriptedPolicy(["one", "yes"], prompt_budget=budget)
    episode = await play(policy, ScriptedProvider("f1"), horizon=2, **APPEND)
    assert stops(episode) == (["prompt_too_long"] if room < 0 else [None, "solved"])
    assert episode.num_shortened == 0
    assert episode.turns[0].feedback.text == "f1"
    (row,) = inline_rows(episode)
    assert (Role.FEEDBACK_MODELING in row.role) == (
        room == 0
    )  # nothing was said to anybody, so nothing is modelled


IDS = st.lists(st.integers(0, 2), max_size=6)


@examples(300)
@given(IDS, IDS, IDS)
def test_the_span_of_what_was_inserted_has_its_length_and_leaves_the_rest(before, inserted, after):
    """Where the inserted ids repeat what stands beside them the span may be one of several that say
    the same.
    """
    without, whole = [*before, *after], [*before, *inserted, *after]
    start, end = inserted_span(without, whole)
    assert end - start == len(inserted)
    assert whole[:start] + whole[end:] == without


@examples(100)
@given(st.lists(st.integers(0, 9), max_size=6), st.lists(st.integers(10, 19), min_size=1), IDS)
def test_what_is_found_nowhere_else_is_found_exactly(before, inserted, after):
    start, end = inserted_span([*before, *after], [*before, *inserted, *after])
    assert [*before, *inserted, *after][start:end] == inserted


def test_tokens_that_change_at_the_seam_belong_to_the_span():
    """A tokenizer may join what stands on either side: ":\\n" + "\\n" alone are one token, apart
    they are two.
    """
    assert inserted_span([1, 99, 5], [1, 7, 30, 31, 8, 5]) == (1, 5)


FILTERS = """
import re

def errors(text):
    return [m.span() for m in re.finditer("E:[a-z]*", text)]

def broken(text):
    raise RuntimeError("no")
"""


def predicted(row):
    """The characters whose tokens predict feedback."""
    pairs = zip(row.response_ids, row.role, strict=True)
    return text_of([t for t, role in pairs if role == Role.FEEDBACK_MODELING])


async def modelled(policy, provider, form="rows", filter=None, weight=0.1, **episode):
    """The rows in which feedback is predicted."""
    settings = FeedbackModelingConfig(weight=weight, form=form, critic="compact", filter=filter)
    append = APPEND if form == "inline" else {}
    method = Method(RLTFConfig(episode=EpisodeConfig(**append), feedback_modeling=settings))
    played = await play(policy, provider, **{"horizon": 2, **append, **episode})
    rows = await episode_rows(policy, QUESTION, played, method)
    assert rows[-1].turn[-1] == len(played.turns) - 1
    assert Role.ATTEMPT in rows[-1].role
    return [row for row in rows if Role.FEEDBACK_MODELING in row.role]


async def filtered(folder, form, function):
    (folder / "mine.py").write_text(FILTERS)
    policy = ScriptedPolicy(["no", "ne", "yes"])
    provider = ScriptedProvider("warning E:one", "E:two and E:three")
    chosen = f"{folder / 'mine.py'}:{function}"
    return await modelled(policy, provider, form, filter=chosen, horizon=3)


async def test_a_filter_says_which_parts_of_each_feedback_are_predicted(tmp_path):
    (row,) = await filtered(tmp_path, "inline", "errors")
    assert predicted(row) == "E:oneE:twoE:three"
    rows = await filtered(tmp_path, "rows", "errors")
    assert [text_of(r.response_ids) for r in rows] == ["warning E:one\0", "E:two and E:three\0"]
    assert [predicted(r) for r in rows] == ["E:one", "E:twoE:three"]


@pytest.mark.parametrize("form", ["inline", "rows"])
async def test_a_filter_that_fails_costs_the_prediction_and_not_the_episode(tmp_path, form, caplog):
    assert await filtered(tmp_path, form, "broken") == []
    assert caplog.text.count("no token of a feedback is predicted") == 1, "named once"
    assert "RuntimeError: no" in caplog.text


@pytest.mark.parametrize("form", ["inline", "rows"])
async def test_the_fixed_sentence_of_on_error_is_not_modelled(form):
    policy, provider = ScriptedPolicy(["no", "ne", "yes"]), ScriptedProvider("real", None)
    (row,) = await modelled(policy, provider, form, horizon=3, on_error="correctness")
    assert predicted(row).strip("\0") == "real"


async def test_every_feedback_that_led_to_another_turn_is_a_row():
    policy = ScriptedPolicy(["one", "two", "yes"])
    rows = await modelled(policy, ScriptedProvider("f1", "f22"), horizon=3)
    assert [(text_of(r.prompt_ids), text_of(r.response_ids)) for r in rows] == [
        (f"{FIRST_PROMPT}\n?one\n!", "f1\0"),
        (f"{FIRST_PROMPT}\n?two\n!", "f22\0"),
    ]
    for k, row in enumerate(rows):
        assert (set(row.role), set(row.turn)) == ({Role.FEEDBACK_MODELING}, {k})
        assert not any(row.log_probs), "nobody sampled them"


CRITIC = f"{FIRST_PROMPT}\n?\n!"
"""Its prompt about an attempt of which nothing is left."""
TOO_SHORT = len(f"{CRITIC}why") - 1
"""For the revise prompt, so that nobody is told."""


@pytest.mark.parametrize(
    ("answers", "provider", "settings"),
    [
        (["yes"], ScriptedProvider(), {}),
        (["no"], ScriptedProvider(None), {}),
        (["no", "yes"], ScriptedProvider("f"), {"weight": 0.0}),
        (["no", "yes"], ScriptedProvider("mine", attempt=attempt([1], [2, 3])), {}),
        (["no"], ScriptedProvider("why"), {"budget": TOO_SHORT}),
    ],
    ids=["right at once", "no feedback", "no weight", "the policy's own", "it led nowhere"],
)
async def test_what_is_not_modelled(answers, provider, settings):
    policy = ScriptedPolicy(answers, prompt_budget=settings.pop("budget", 10_000))
    assert await modelled(policy, provider, **settings) == []


@pytest.mark.parametrize("room", range(1, 9))
async def test_a_critic_prompt_that_is_too_long_quotes_the_attempts_tail(room):
    """The revise prompt hides the attempt here, so it fits where the critic's does not."""
    policy = ScriptedPolicy(["abcdefghij", "yes"], prompt_budget=len(CRITIC) + room)
    (row,) = await modelled(policy, ScriptedProvider("f"), revise="compact_guide")
    assert text_of(row.prompt_ids) == f"{FIRST_PROMPT}\n?…{'abcdefghij'[11 - room :]}\n!"


async def test_a_critic_prompt_that_never_fits_is_no_row_and_counts_as_untrained():
    config = RLTFConfig(feedback_modeling=FeedbackModelingConfig(weight=0.1, critic="compact"))
    rows, played = [], []
    for room in (0, 1):
        policy = ScriptedPolicy(["abc", "yes"], prompt_budget=len(CRITIC) + room)
        provider = ScriptedProvider("")
        played.append(await play(policy, provider, horizon=2, revise="compact_append"))
        rows.append(await episode_rows(policy, QUESTION, played[-1], Method(config)))
    assert [len(made) for made in rows] == [2, 3]
    objective = objective_of(config, "feedback_modeling")
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
    (row,) = await modelled(policy, ScriptedProvider("words"))
    assert text_of(row.response_ids) == kept


@given(st.text(max_size=20))
async def test_any_text_can_be_modelled(text):
    (row,) = await modelled(ScriptedPolicy(["no", "yes"]), ScriptedProvider(text))
    assert text_of(row.response_ids) == f"{clean_text(text)}\0"
