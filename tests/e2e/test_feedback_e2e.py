"""Feedback in the real trainer: siblings that help each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltf_verl.runlog.episodes import read_episodes
from tests.e2e import runs

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
STEPS, TIMEOUT = 3, 500
COMMON = [f"trainer.total_training_steps={STEPS}", "trainer.save_freq=-1", "rltf.episode.horizon=3"]

# The policy solves nothing at once: the verifier helps the first episode of a group, which then
# helps the others.
PEER_FIRST = [
    "rltf/feedback=ensemble",
    "rltf.feedback.members=[{provider:peer,wait_s:60},{provider:verifier,level:full}]",
    "rltf.feedback.guard.action=none",
    "rltf.feedback.acknowledge_leaks=true",
]


def test_siblings_help_each_other(tmp_path: Path) -> None:
    run = runs.start(tmp_path / "peer", runs.build_data(tmp_path / "data"), [*COMMON, *PEER_FIRST])
    assert run.wait(TIMEOUT) == 0, run.log[-3000:]
    records = read_episodes(run.episodes)
    solved = {
        (r["step"], r["index"], r["session_id"], t["text"].strip())
        for r in records
        for t in r["turns"]
        if t["grade"]["correct"]
    }
    helped = [
        (r, t["feedback"]["text"])
        for r in records
        for t in r["turns"]
        if t["feedback"] and t["feedback"]["provider"] == "peer"
    ]
    assert helped
    for record, text in helped:
        quoted = text.partition("\n\n")[2]
        helpers = {
            episode
            for step, index, episode, answer in solved
            if (step, index, answer) == (record["step"], record["index"], quoted)
        }
        assert helpers - {record["session_id"]}, "what is quoted is another session's right answer"
