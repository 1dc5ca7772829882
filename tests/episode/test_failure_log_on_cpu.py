"""What raises after an answer costs the rest of its episode, and not the group."""

import asyncio
import logging

import pytest

from rltf_verl.episode import failure_log
from rltf_verl.feedback.group import Group
from tests.support.episode_fakes import (
    EchoEnv,
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
async def test_feedback_that_cannot_be_encoded_ends_the_episode_with_its_cause(form):
    episode = await play(StrictPolicy(["no", "yes"]), ScriptedProvider(HALF), **form)
    (turn,) = episode.turns
    assert (turn.stop, turn.feedback) == ("feedback_unavailable", None)
    assert turn.error.startswith("scripted: no prompt could be made of it: UnicodeEncodeError: ")


async def test_siblings_are_played():
    group, parts = Group(2), parts_with(EchoEnv(), ScriptedProvider(HALF))
    await play_parts(parts, StrictPolicy(["no"]), group=group)
    group.note_grade(1, 0, "no", correct=False)
    assert await asyncio.wait_for(group.failed(0, 60.0), 5.0), "the sibling does not wait for it"


async def test_each_kind_is_logged_once_with_its_cause(caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await play(StrictPolicy(["no"]), ScriptedProvider(HALF))
    (record,) = caplog.records
    assert "episode 3 of problem 7: UnicodeEncodeError: " in record.getMessage()


def test_other_kinds_have_lines_of_their_own(caplog):
    def failure(kind):
        try:
            raise kind("a\nb" * 1000)
        except Exception as error:
            return error

    with caplog.at_level(logging.WARNING):
        for kind in (ValueError, KeyError, ValueError):
            failure_log.log_once("an episode was lost", "session 0 of row 1", failure(kind))
        failure_log.log_once("something else", "session 0 of row 1", failure(ValueError))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert all("\n" not in line and len(line) < 900 for line in lines)


async def test_a_policy_that_cannot_sample_loses_the_episode():
    """There is nothing to train on: the worker names it, and the trainer counts it."""

    class Down(ScriptedPolicy):
        async def sample(self, prompt_ids, seed):
            raise RuntimeError("the engine is down")

    group = Group(1)
    parts = parts_with(EchoEnv(), ScriptedProvider("f"))
    with pytest.raises(RuntimeError, match="the engine is down"):
        await play_parts(parts, Down([]), group=group)
    assert await group.solutions(1, 5, 0.0) == []
