"""Record and replay: the same outcome for the same call, and nobody is called; and people who
answer in a folder (docs/examples/human.py).
"""

import asyncio
import json
from pathlib import Path

import pytest

from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.feedback.record import RecordedProvider, call_key, settings_key
from rltf_verl.jsonl import read_lines
from rltf_verl.types import Attempt, Problem
from tests.support.disks import slow_disk
from tests.support.feedback_fakes import PROBLEM, Scripted, asked, turn
from tests.support.waiting import until


def recorded(folder: Path, *texts: str | None, options=None, **kwargs) -> RecordedProvider:
    return RecordedProvider(Scripted(*texts, **kwargs), folder, options or {})


async def cause_of(provider, request) -> str:
    with pytest.raises(FeedbackUnavailable) as refused:
        await provider.feedback(request)
    return str(refused.value)


async def test_the_very_call_gets_the_very_outcome(tmp_path):
    calls = [
        asked("41", seed=1),
        asked("41", seed=2),
        asked("40", seed=3),
        asked("41", turn("43"), seed=4),
    ]
    record = recorded(tmp_path, "one", "two", None, "four")
    outcomes = [
        (await record.feedback(c)).text if i != 2 else await cause_of(record, c)
        for i, c in enumerate(calls)
    ]
    replay = make_provider("replay", folder=str(tmp_path))
    for call, outcome in zip(reversed(calls), reversed(outcomes), strict=True):
        if call.seed == 3:
            assert await cause_of(replay, call) == outcome == "scripted: nobody there"
        else:
            said = await replay.feedback(call)
            assert (said.text, said.provider, said.sees_reference) == (outcome, "scripted", False)
    assert (replay.sees_reference, replay.constant) == (True, False)


async def test_the_same_attempt_elsewhere_gets_an_answer_that_was_given_to_it(tmp_path):
    record = recorded(tmp_path, "one", "two", None)
    for seed in (1, 2):
        await record.feedback(asked("41", seed=seed))
    await cause_of(record, asked("41", seed=3))
    replay = make_provider("replay", folder=str(tmp_path))
    said = {
        seed: (await replay.feedback(asked("41", seed=seed, session_id=9))).text
        for seed in range(10, 20)
    }
    assert set(said.values()) == {"one", "two"}, "a failure belongs to its own call"
    again = make_provider("replay", folder=str(tmp_path))
    assert said == {
        seed: (await again.feedback(asked("41", seed=seed))).text for seed in range(10, 20)
    }


async def test_a_miss_says_where_it_looked_and_what_to_do(tmp_path):
    await recorded(tmp_path, "one").feedback(asked("41"))
    replay = make_provider("replay", folder=str(tmp_path))
    cause = await cause_of(replay, asked("39"))
    assert cause.startswith(
        f"replay: {tmp_path} holds no answer to this attempt at problem 3; record one with"
    )
    assert "rltf.feedback.miss={provider: …}" in cause
    other = make_provider("replay", folder=str(tmp_path), miss={"provider": "correctness"})
    assert (await other.feedback(asked("39"))).provider == "correctness"
    assert (await other.feedback(asked("41"))).text == "one"


DIFFERENT = [
    asked("41 "),
    asked("41", "41"),
    asked(turn("41", "said"), "41"),
    asked(turn("41"), "41"),
    asked("41", problem=Problem("sums", 3, {"a": 6, "b": 8}, "42")),
    asked("41", problem=Problem("sums", 3, PROBLEM.data, "48")),
    asked("41", problem=Problem("other", 3, PROBLEM.data, "42")),
]


def test_what_the_key_depends_on():
    same = asked("41", problem=Problem("sums", 99, {"b": 7, "a": 6}, "42"), seed=5, session_id=4)
    assert call_key(same) == call_key(asked("41")), (
        "not on seed, session, position in the data or order of fields"
    )
    keys = {call_key(request) for request in DIFFERENT}
    assert len(keys) == len(DIFFERENT) - 1  # the second and the fourth are the same conversation
    assert call_key(asked("41")) not in keys


async def test_what_the_policy_wrote_itself_is_not_recorded(tmp_path):
    critique = Attempt((1,), (2,), (-0.5,), "x", ended=True)
    await recorded(tmp_path / "new", "x", attempt=critique).feedback(asked())
    assert not (tmp_path / "new").exists()


async def test_answers_of_differently_set_providers_are_not_mixed(tmp_path):
    await recorded(tmp_path, "mild", options={"style": "mild"}).feedback(asked())
    await recorded(tmp_path, "harsh", options={"style": "harsh"}).feedback(asked())
    with pytest.raises(
        ValueError,
        match=r"rltf\.feedback\.folder=.*" + settings_key("scripted", {"style": "harsh"}),
    ):
        make_provider("replay", folder=str(tmp_path))


def test_how_fast_a_judge_may_be_asked_is_no_other_setting():
    fast, slow = ({"limits": {"max_concurrency": most}} for most in (64, 4))
    assert settings_key("judge", fast) == settings_key("judge", slow)
    siblings = ({"each": {"provider": "judge", **limits}} for limits in (fast, slow))
    assert len({settings_key("siblings", options) for options in siblings}) == 1
    assert settings_key("own", fast) != settings_key("own", slow)
    assert settings_key("judge", {"style": "hint"}) != settings_key("judge", {"style": "full"})


@pytest.mark.parametrize("content", [None, "", "{}\n", '{"key": 1}\nhalf'])
def test_a_folder_without_a_record(tmp_path, content):
    if content is not None:
        (tmp_path / "feedback.1.a.jsonl").write_text(content)
    with pytest.raises(
        ValueError, match=r"rltf\.feedback\.folder=.*: no feedback is recorded there; it is rltf"
    ):
        make_provider("replay", folder=str(tmp_path))


async def test_a_resumed_run_went_on_from_its_second_answer(tmp_path):
    await recorded(tmp_path, "before the crash").feedback(asked(seed=1))
    await recorded(tmp_path, "after it").feedback(asked(seed=1))
    assert (
        await make_provider("replay", folder=str(tmp_path)).feedback(asked(seed=1))
    ).text == "after it"


async def test_a_disk_that_refuses_is_one_warning_and_not_the_end_of_the_run(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    record = recorded(tmp_path / "file", "one")
    for _ in range(2):
        assert (await record.feedback(asked())).text == "one"
    assert caplog.text.count("feedback record in") == 1


@pytest.mark.parametrize("said", ["one", None])
async def test_an_event_loop_goes_on_while_feedback_is_recorded(tmp_path, monkeypatch, said):
    disk = slow_disk(monkeypatch)
    record = recorded(tmp_path, said)
    asking = asyncio.create_task(record.feedback(asked()) if said else cause_of(record, asked()))
    await until(disk.asked.is_set)
    disk.released.set()
    await asking
    assert [line.get("text") for file in tmp_path.iterdir() for line in read_lines(file)] == [said]


async def test_a_provider_that_breaks_is_recorded_as_it_counted(tmp_path):
    class Broken(Scripted):
        async def feedback(self, request):
            raise KeyError("oh")

    cause = await cause_of(RecordedProvider(Broken(""), tmp_path, {}), asked())
    assert cause.startswith("scripted: KeyError: 'oh' (test_replay_on_cpu.py:")
    assert await cause_of(make_provider("replay", folder=str(tmp_path)), asked()) == cause


def pending(folder: Path) -> list[dict]:
    return [line for path in folder.glob("pending.*.jsonl") for line in read_lines(path)]


async def test_the_attempt_is_shown_and_the_answer_picked_up(tmp_path):
    folder, request = tmp_path / "inbox", asked(turn("40", "too small"), "41")
    provider = make_provider("docs/examples/human.py:HumanProvider", inbox=str(folder), poll_s=0.02)
    waiting = asyncio.create_task(provider.feedback(request))
    await until(lambda: folder.exists() and pending(folder))
    (line,) = pending(folder)
    assert line["id"] == call_key(request)
    assert (line["question"], line["attempt"], line["correct"]) == (
        "What is 6 times 7?",
        "41",
        False,
    )
    assert (line["reference"], line["before"], line["turn"]) == (None, [["40", "too small"]], 2)
    answer = {"id": call_key(request), "text": "  One more!  "}
    (folder / "answers.jsonl").write_text(json.dumps(answer) + "\n")
    said = await waiting
    assert (said.text, said.provider, said.sees_reference) == ("One more!", "human", False)
