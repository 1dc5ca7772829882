"""What of an answer is shown and trained: thoughts are not quoted, not told as a critique, not read
by a critic; a second answer that speaks of the feedback is kept, masked or dropped.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.config import (
    DistillConfig,
    EpisodeConfig,
    FeedbackModelingConfig,
    ImitateConfig,
    MentionsConfig,
    RLTFConfig,
)
from rltf_verl.episode.mentions import mentions, touching
from rltf_verl.feedback import make_provider
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.prompts.quote import UNFINISHED, shown_of
from rltf_verl.texts import without_thoughts
from rltf_verl.types import CONTEXT, Role
from tests.support.episode_fakes import (
    QUESTION,
    Remark,
    ScriptedPolicy,
    ScriptedProvider,
    play,
    text_of,
)
from tests.support.episode_rows import episode, turn

SECRET = "hm, 12?"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("It is 12.", "It is 12."),
        (f"<think>{SECRET}</think>\n\nIt is 12.", "It is 12."),
        (f"{SECRET}</think>\n\nIt is 12.", "It is 12."),
        (f"<think>{SECRET}", ""),
        (f"It is 12. <think>{SECRET}", "It is 12."),
        (f"<think>{SECRET}</think>a<think>{SECRET}</think>\nIt is 12.", "It is 12."),
        (f"<think>{SECRET}</think>It is 12.<think>{SECRET}", "It is 12."),
        ("<think>\n\n</think>\n\n It is 12.\n", "It is 12."),
        ("  as it is \n", "  as it is \n"),
    ],
)
def test_what_is_left_without_thoughts(text: str, answer: str) -> None:
    assert without_thoughts(text) == answer
    assert shown_of(text, "answer") == (answer or UNFINISHED)
    assert shown_of(text, "all") == shown_of(text, "none") == text


@pytest.mark.parametrize(("quote", "shown"), [("answer", False), ("all", True)])
@pytest.mark.parametrize("context", ["fresh", "append"])
async def test_the_next_prompt_quotes_answers_and_the_grader_sees_all(
    quote: str, shown: bool, context: str
) -> None:
    answer = f"<think>{SECRET}</think>\nno"
    policy = ScriptedPolicy([answer, "yes"])
    template = "compact" if context == "fresh" else "critique"
    episode = await play(
        policy, ScriptedProvider("f"), horizon=2, quote=quote, context=context, revise=template
    )
    behind = policy.prompts[1] if context == "fresh" else policy.prompts[1].rpartition("<user>")[2]
    assert (SECRET in behind) == shown
    assert "no" in behind
    assert episode.turns[0].grade.parsed == answer


@pytest.mark.parametrize(("quote", "shown"), [("answer", False), ("all", True)])
async def test_the_policys_own_critique_is_told_without_its_thoughts(
    quote: str, shown: bool
) -> None:
    answer = f"<think>{SECRET}</think>\nno"
    critique = f"<think>the answer is yes {SECRET}</think>\nLook again."
    policy = ScriptedPolicy([answer, critique, "yes"])
    episode = await play(policy, make_provider("policy", critic="compact"), horizon=2, quote=quote)
    feedback = episode.turns[0].feedback
    assert (SECRET in policy.prompts[1]) == shown, "what the critic reads"
    assert (SECRET in feedback.text) == shown
    assert feedback.text.endswith("Look again.")
    assert SECRET in text_of(feedback.attempt.response_ids), "the row holds what was sampled"


async def test_a_critique_that_never_left_its_thoughts_is_none() -> None:
    policy = ScriptedPolicy(["no", f"<think>{SECRET}"])
    episode = await play(policy, make_provider("policy", critic="compact"), horizon=2)
    assert (episode.turns[0].stop, len(episode.turns)) == ("feedback_unavailable", 1)
    assert "the policy's critique is empty" in (episode.turns[0].error or "")


class Thinker(ScriptedPolicy):
    """Its template has a mark where thoughts would stand."""

    async def encode_unthinking(self, messages) -> tuple[int, ...]:
        return (*await self.encode(messages), ord("§"))


@pytest.mark.parametrize("quote", ["answer", "all"])
async def test_feedback_modelling_predicts_an_answer_without_thoughts(quote: str) -> None:
    policy = Thinker([f"<think>{SECRET}</think>no", "yes"])
    config = RLTFConfig(
        episode=EpisodeConfig(revise="compact", quote=quote),
        feedback_modeling=FeedbackModelingConfig(weight=1.0, critic="compact"),
    )
    episode = await play(policy, Remark(), horizon=2, quote=quote)
    rows = await episode_rows(policy, QUESTION, episode, Method(config))
    (row,) = [row for row in rows if Role.FEEDBACK_MODELING in row.role]
    prompt = text_of(row.prompt_ids)
    assert prompt.endswith("!§"), "the empty thoughts belong to the context"
    assert (SECRET in prompt) == (quote == "all")


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


async def test_mask_and_drop_change_the_rows_behind_the_first_prompt_only():
    kept, masked, dropped = [await rows(["no", SPOKEN], how) for how in ("keep", "mask", "drop")]
    assert [(r.role[0], trained(r)) for r in kept] == [
        (Role.ATTEMPT, "no\0"),
        (Role.DISTILL, f"{SPOKEN}\0"),
        (Role.IMITATE, f"{SPOKEN}\0"),
        (Role.ATTEMPT, f"{SPOKEN}\0"),
    ]
    assert [trained(r) for r in masked] == ["no\0", "by : yes\0", "by : yes\0", f"{SPOKEN}\0"]
    assert [replace(row, role=plain.role) for row, plain in zip(masked, kept, strict=True)] == kept
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
    marked = touching(pieces, mentions("".join(pieces), ["feedback"]))
    assert len(marked) == len(pieces)
    for piece, mark in zip(pieces, marked, strict=True):
        if piece:
            assert mark == bool(inside & set(range(position, position + len(piece))))
        position += len(piece)
