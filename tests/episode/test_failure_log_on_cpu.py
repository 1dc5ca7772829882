"""What raises after an answer costs the rest of its episode, and not the group."""

import pytest

from rltf_verl.episode import failure_log
from tests.support.episode_fakes import ScriptedPolicy, ScriptedProvider, play

HALF = "half a pair"


@pytest.fixture(autouse=True)
def nothing_named():
    failure_log._logged.clear()


@pytest.mark.parametrize("form", [{}, {"context": "append", "revise": "compact_append"}])
async def test_feedback_that_cannot_be_encoded_ends_the_episode_with_its_cause(form, caplog):
    policy = ScriptedPolicy(["no", "yes"], refuses=HALF)
    episode = await play(policy, ScriptedProvider(HALF), **form)
    (turn,) = episode.turns
    assert (turn.stop, turn.feedback) == ("feedback_unavailable", None)
    assert turn.error.startswith("scripted: no prompt could be made of it: UnicodeEncodeError: ")
    assert "episode 3 of problem 7: UnicodeEncodeError: " in caplog.text


def test_each_kind_has_one_line_of_its_own(caplog):
    long = "a\nb" * 1000
    for error in (ValueError(long), KeyError(long), ValueError(long)):
        failure_log.log_once("an episode was lost", "session 0 of row 1", error)
    failure_log.log_once("something else", "session 0 of row 1", ValueError(long))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3
    assert all("\n" not in line and len(line) < 900 for line in lines)
