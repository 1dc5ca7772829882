"""Second answers that speak of the feedback: kept, masked or dropped where they stand behind the
first prompt.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.config import DistillConfig, ImitateConfig, MentionsConfig, RLTFConfig
from rltf_verl.episode.mentions import mentioning_tokens, mentions
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.types import CONTEXT, Role
from tests.support.episode_fakes import QUESTION, ScriptedPolicy, ScriptedProvider, play, text_of
from tests.support.episode_rows import episode, turn


async def rows(
    answers, action, phrases=("feedback", "the critique"), source="revised", provider=("f",)
):
    config = RLTFConfig(
        distill=DistillConfig(weight=0.1),
        imitate=ImitateConfig(weight=0.1, source=source),
        mentions=MentionsConfig(action, phrases),
    )
    policy = ScriptedPolicy(answers)
    session = await play(policy, ScriptedProvider(*provider), horizon=2)
    return await episode_rows(policy, QUESTION, session, Method(config))


def trained(row):
    """The text whose tokens train something."""
    return "".join(
        text_of(row.response_ids)[j] for j, role in enumerate(row.role) if role != CONTEXT
    )


SPOKEN = "by the Critique: yes"


async def test_keep_keeps_everything():
    made = await rows(["no", SPOKEN], "keep")
    assert [(r.role[0], trained(r)) for r in made] == [
        (Role.ATTEMPT, "no\0"),
        (Role.DISTILL, f"{SPOKEN}\0"),
        (Role.IMITATE, f"{SPOKEN}\0"),
        (Role.ATTEMPT, f"{SPOKEN}\0"),
    ]


async def test_mask_and_drop_change_the_rows_behind_the_first_prompt_only():
    made, plain = await rows(["no", SPOKEN], "mask"), await rows(["no", SPOKEN], "keep")
    assert [trained(r) for r in made] == ["no\0", "by : yes\0", "by : yes\0", f"{SPOKEN}\0"]
    for row, unmasked in zip(made, plain, strict=True):
        for name in ("prompt_ids", "response_ids", "turn", "log_probs", "rewards"):
            assert getattr(row, name) == getattr(unmasked, name)
    dropped = await rows(["no", SPOKEN], "drop")
    assert [r.role[0] for r in dropped] == [Role.ATTEMPT, Role.ATTEMPT]


@pytest.mark.parametrize("action", ["mask", "drop"])
async def test_answers_that_do_not_speak_of_it_are_left_alone(action):
    assert await rows(["no", "feedbacks yes"], action) == await rows(
        ["no", "feedbacks yes"], "keep"
    )


@pytest.mark.parametrize("action", ["mask", "drop"])
async def test_first_answers_may_say_anything(action):
    """What was said before any feedback cannot be about it."""
    made = await rows(["feedback: yes"], action, source="all", provider=())
    assert [(r.role[0], trained(r)) for r in made] == [
        (Role.IMITATE, "feedback: yes\0"),
        (Role.ATTEMPT, "feedback: yes\0"),
    ]


async def test_the_end_token_has_no_text_so_it_stays():
    made = await rows(["no", "yes"], "mask", phrases=("yes",))
    assert [trained(r) for r in made] == ["no\0", "\0", "\0", "yes\0"]


async def test_a_row_of_which_nothing_is_left_is_dropped():
    """Answers that were cut off within the phrase."""
    played = episode(turn([1], [2]), turn([3], [ord(c) for c in "yes"], 1.0))
    config = RLTFConfig(
        distill=DistillConfig(weight=0.1), mentions=MentionsConfig("mask", ("yes",))
    )
    made = await episode_rows(ScriptedPolicy([]), QUESTION, played, Method(config))
    assert [row.role[0] for row in made] == [Role.ATTEMPT, Role.ATTEMPT]


PHRASES = ["feedback", "previous attempt", "a+b"]


@pytest.mark.parametrize(
    ("text", "phrases", "marked"),
    [
        # in any case and at word boundaries
        ("As the Feedback says", PHRASES, ["Feedback"]),
        ("FEEDBACK, feedback.", PHRASES, ["FEEDBACK", "feedback"]),
        ("feedbacks and prefeedback", PHRASES, []),
        ("the previous attempt's answer", PHRASES, ["previous attempt"]),
        ("the previous attempts", PHRASES, []),
        ("a.b", PHRASES, []),
        ("", PHRASES, []),
        # the longer phrase wins
        ("the revised solution here", ["revised", "revised solution"], ["revised solution"]),
        # phrases are texts and not patterns
        ("a+b", ["a+b"], ["a+b"]),
        ("aab", ["a+b"], []),
    ],
)
def test_what_mentions_a_phrase(text, phrases, marked):
    assert [text[a:b] for a, b in mentions(text, phrases)] == marked


@given(st.lists(st.sampled_from(["the", " feed", "back", "", " ", "x", "Feedback"]), max_size=8))
def test_exactly_the_tokens_that_touch_a_phrase_are_marked(pieces):
    text, position = "".join(pieces), 0
    inside = {i for a, b in mentions(text, ["feedback"]) for i in range(a, b)}
    marked = mentioning_tokens(pieces, ["feedback"])
    assert len(marked) == len(pieces)
    for piece, mark in zip(pieces, marked, strict=True):
        if piece:
            assert mark == bool(inside & set(range(position, position + len(piece))))
        position += len(piece)
