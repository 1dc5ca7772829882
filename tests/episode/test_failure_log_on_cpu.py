"""What raises after an answer costs the rest of its episode, and not the group."""

import asyncio

import pytest

from rltf_verl.episode import failure_log
from rltf_verl.feedback.group import Group
from tests.support.episode_fakes import (
    EchoEnv,
    LatePolicy,
    ScriptedPolicy,
    ScriptedProvider,
    parts_with,
    play,
    play_parts,
)

HALF = "half a pair"


class StrictPolicy(ScriptedPolicy):
    """Its tokenizer fails on one text, as a real one does on half a surrogate pair."""

    async def encode(self, messages):
        for message in messages:
            if HALF in message["content"]:
                "\ud83d".encode()
        return await super().encode(messages)


@pytest.fixture(autouse=True)
def nothing_named():
    failure_log._logged.clear()


@pytest.mark.parametrize("form", [{}, {"context": "append", "revise": "compact_append"}])
async def test_feedback_that_cannot_be_encoded_ends_the_episode_with_its_cause(form, caplog):
    episode = await play(StrictPolicy(["no", "yes"]), ScriptedProvider(HALF), **form)
    (turn,) = episode.turns
    assert (turn.stop, turn.feedback) == ("feedback_unavailable", None)
    assert turn.error.startswith("scripted: no prompt could be made of it: UnicodeEncodeError: ")
    assert "episode 3 of problem 7: UnicodeEncodeError: " in caplog.text


async def test_siblings_are_played():
    group, parts = Group(2), parts_with(EchoEnv(), ScriptedProvider(HALF))
    await play_parts(parts, StrictPolicy(["no"]), group=group)
    group.note_grade(1, 0, "no", correct=False)
    assert await asyncio.wait_for(group.failed(0, 60.0), 5.0), "the sibling does not wait for it"


def test_each_kind_has_one_line_of_its_own(caplog):
    long = "a\nb" * 1000
    for error in (ValueError(long), KeyError(long), ValueError(long)):
        failure_log.log_once("an episode was lost", "session 0 of row 1", error)
    failure_log.log_once("something else", "session 0 of row 1", ValueError(long))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert all("\n" not in line and len(line) < 900 for line in lines)


async def test_a_policy_that_cannot_sample_loses_the_episode():
    """There is nothing to train on: the worker names it, and the trainer counts it."""
    group = Group(1)
    parts = parts_with(EchoEnv(), ScriptedProvider("f"))
    with pytest.raises(RuntimeError, match="the engine died"):
        await play_parts(parts, LatePolicy([], breaks_at=0), group=group)
    assert await group.solutions(1, 5, 0.0) == []
