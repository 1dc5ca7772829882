"""Feedback in the real trainer: a recorded run replayed, the guard's metrics, siblings that help
each other.
"""

from __future__ import annotations

from typing import Any

import pytest

from rltf_verl.report.audit import audit
from rltf_verl.runlog.episodes import read_episodes
from tests.e2e import runs

pytestmark = pytest.mark.e2e
STEPS, TIMEOUT = 3, 500
COMMON = [f"trainer.total_training_steps={STEPS}", "trainer.save_freq=-1", "rltf.episode.horizon=3"]

# The policy solves nothing at once: the verifier helps the first session of a group, which then
# helps the others.
PEER_FIRST = [
    "rltf/feedback=ensemble",
    "rltf.feedback.members=[{provider:peer,wait_s:60},{provider:verifier,level:full}]",
    "rltf.feedback.guard.action=none",
    "rltf.feedback.acknowledge_leaks=true",
]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, runs.Run]:
    """A recorded run, then its replay beside a run with the provider `peer`."""
    root = tmp_path_factory.mktemp("feedback")
    data = runs.build_data(root / "data")

    def start(name: str, *overrides: str) -> runs.Run:
        return runs.start(root / name, data, [*COMMON, *overrides])

    recorded = start(
        "recorded", "rltf.feedback.guard.action=warn", f"rltf.feedback.record_dir={root / 'record'}"
    )
    found = {"recorded": recorded}
    assert recorded.wait(TIMEOUT) == 0, recorded.log[-3000:]
    replay = [
        "rltf/feedback=replay",
        f"rltf.feedback.folder={root / 'record'}",
        "rltf.feedback.guard.action=warn",
    ]
    found["replayed"] = start("replayed", *replay)
    found["peer"] = start("peer", *PEER_FIRST)
    for run in found.values():
        assert run.wait(TIMEOUT) == 0, run.log[-3000:]
    return found


def sessions(run: runs.Run) -> dict[tuple[Any, ...], list[Any]]:
    """Everything that was said, by step, split, problem and session."""
    said = {}
    for r in read_episodes(run.episodes):
        turns = [
            (t["text"], t["reward"], t["error"], t["feedback"] and _without_clock(t["feedback"]))
            for t in r["turns"]
        ]
        said[(r["step"], r["split"], r["index"], r["session_id"])] = turns
    return said


def _without_clock(feedback: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in feedback.items() if key != "latency_s"}


def test_a_replayed_run_gives_the_same_episodes(played: dict[str, runs.Run]) -> None:
    one, other = sessions(played["recorded"]), sessions(played["replayed"])
    assert len(one) >= STEPS * 12 * 3
    assert one == other


def test_the_guard_tells_the_metrics_and_the_log(played: dict[str, runs.Run]) -> None:
    for line in played["recorded"].metrics():
        if "rltf/turn_1/acc" in line["data"]:
            assert line["data"]["rltf/feedback/leak_share"] > 0.9, "level full states the answer"
            assert (
                line["data"]["rltf/feedback/leak_share/verifier"]
                == line["data"]["rltf/feedback/leak_share"]
            )
    (verifier,) = audit(read_episodes(played["recorded"].episodes))
    assert verifier.provider == "verifier"
    assert verifier.leaks is not None
    assert verifier.leaks > 0.9


def test_siblings_help_each_other(played: dict[str, runs.Run]) -> None:
    records = read_episodes(played["peer"].episodes)
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
            session
            for step, index, session, answer in solved
            if (step, index, answer) == (record["step"], record["index"], quoted)
        }
        assert helpers - {record["session_id"]}, "what is quoted is another session's right answer"
