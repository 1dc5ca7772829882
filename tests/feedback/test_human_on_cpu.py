"""People answer in a folder: late, twice, out of order, in broken lines, or never."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from rltf_verl.feedback import make_provider
from rltf_verl.feedback.base import FeedbackUnavailable
from rltf_verl.feedback.record import call_key
from rltf_verl.jsonl import read_lines
from tests.support.feedback_fakes import asked, turn
from tests.support.waiting import until


def human(folder: Path, **options):
    return make_provider(
        "docs/examples/human.py:HumanProvider",
        inbox=str(folder),
        **{"deadline_s": 20.0, "poll_s": 0.02, **options},
    )


def answer(
    folder: Path, request, text: str | None, name: str = "answers.jsonl", end: str = "\n"
) -> None:
    with (folder / name).open("a") as file:
        file.write(json.dumps({"id": call_key(request), "text": text}) + end)


def pending(folder: Path) -> list[dict]:
    return [line for path in folder.glob("pending.*.jsonl") for line in read_lines(path)]


async def test_the_attempt_is_shown_and_the_answer_picked_up(tmp_path):
    folder, request = tmp_path / "inbox", asked(turn("40", "too small"), "41")
    waiting = asyncio.create_task(human(folder).feedback(request))
    await until(lambda: folder.exists() and pending(folder))
    (line,) = pending(folder)
    assert line["id"] == call_key(request)
    assert (line["question"], line["attempt"], line["correct"]) == (
        "What is 6 times 7?",
        "41",
        False,
    )
    assert (line["reference"], line["before"], line["turn"]) == (None, [["40", "too small"]], 2)
    answer(folder, request, "  One more!  ")
    said = await waiting
    assert (said.text, said.provider, said.sees_reference) == ("One more!", "human", False)


async def test_nobody_answers(tmp_path):
    start = time.monotonic()
    with pytest.raises(
        FeedbackUnavailable, match=r"no answer for .* within 0.1 s; .*rltf\.feedback\.deadline_s"
    ):
        await human(tmp_path, deadline_s=0.1).feedback(asked())
    assert time.monotonic() - start < 20


async def test_what_was_answered_before_is_not_asked_again_and_the_last_answer_counts(tmp_path):
    answer(tmp_path, asked(), "first")
    answer(tmp_path, asked(), "corrected")
    assert (await human(tmp_path).feedback(asked(seed=5))).text == "corrected"
    assert pending(tmp_path) == []


async def test_half_a_line_is_waited_for_and_nonsense_skipped(tmp_path):
    (tmp_path / "answers.a.jsonl").write_text('nonsense\n[]\n{"text": "no id"}\n')
    answer(tmp_path, asked(), "whole", end="")
    waiting = asyncio.create_task(human(tmp_path).feedback(asked()))
    await asyncio.sleep(0.1)
    assert not waiting.done(), "the line has no end yet"
    with (tmp_path / "answers.jsonl").open("a") as file:
        file.write("\n")
    assert (await waiting).text == "whole"


@pytest.mark.parametrize(
    ("inbox", "cause"),
    [(".", "declined"), ("answers.jsonl", r"rltf\.feedback\.inbox=.*jsonl cannot be written")],
)
async def test_a_person_declines_or_the_inbox_cannot_be_written(tmp_path, inbox, cause):
    answer(tmp_path, asked(), None)
    with pytest.raises(FeedbackUnavailable, match=cause):
        await human(tmp_path / inbox).feedback(asked())
