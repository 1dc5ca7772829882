"""Thoughts of thinking policies: not quoted, not told as a critique, not part of what a critic
reads.
"""

import pytest

from rltf_verl.config import EpisodeConfig, FeedbackModelingConfig, RLTFConfig
from rltf_verl.feedback import make_provider
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.prompts.quote import UNFINISHED, shown_of
from rltf_verl.texts import without_thoughts
from rltf_verl.types import Role
from tests.support.episode_fakes import (
    QUESTION,
    Remark,
    ScriptedPolicy,
    ScriptedProvider,
    play,
    text_of,
)

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
    policy = ScriptedPolicy(
        [answer, f"<think>the answer is yes {SECRET}</think>\nLook again.", "yes"]
    )
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
