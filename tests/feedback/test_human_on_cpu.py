"""People who answer in a folder (docs/examples/human.py)."""

import asyncio
import json
from pathlib import Path

from docs.examples.human import call_key
from rltf_verl.feedback import make_provider
from rltf_verl.jsonl import read_lines
from rltf_verl.types import Problem
from tests.support.feedback_fakes import PROBLEM, asked, turn
from tests.support.waiting import until

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
    answer = json.dumps({"id": line["id"], "text": "  One more!  "})
    (folder / "answers.jsonl").write_text(f"{answer}\n")
    said = await waiting
    assert (said.text, said.provider, said.sees_reference) == ("One more!", "human", False)
