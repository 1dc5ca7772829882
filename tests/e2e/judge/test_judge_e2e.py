"""A judge that dies in the middle of a real training run: training goes on, and the metrics tell
what happened.
"""

import signal
from pathlib import Path

import pytest

from rltf_verl.runlog.episodes import read_episodes
from tests.e2e import runs
from tests.support.judge.server import InThread, JudgeServer

pytestmark = pytest.mark.e2e
DOWN_IN, BACK_IN, TIMEOUT = 2, 4, 900
KEY = "sk-only-for-this-test"
JUDGE = "rltf/feedback/judge"

SETTINGS = [
    "rltf/feedback=judge",
    "rltf.feedback.style=short",
    "rltf.feedback.endpoint.model=m",
    "rltf.feedback.endpoint.api_key_env=RLTF_TEST_KEY",
    "rltf.feedback.limits.deadline_s=8",
    "rltf.feedback.limits.request_timeout_s=4",
    "rltf.feedback.limits.backoff_s=0.2",
    "rltf.feedback.limits.breaker_failures=3",
    "rltf.feedback.limits.breaker_after_s=0.5",
    "rltf.feedback.limits.breaker_probe_s=1",
    "rltf.feedback.price.prompt=2",
    "rltf.feedback.price.completion=10",
    "trainer.total_training_steps=1000",
    "trainer.save_freq=-1",
    "trainer.test_freq=-1",
    "actor_rollout_ref.rollout.agent.num_workers=2",
]


def start(folder: Path, url: str, *overrides: str) -> runs.Run:
    data = runs.build_data(folder / "data")
    return runs.start(
        folder, data, [*SETTINGS, f"rltf.feedback.endpoint.base_url={url}", *overrides]
    )


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLTF_TEST_KEY", KEY)


def test_a_judge_that_dies_and_comes_back(tmp_path: Path) -> None:
    server = JudgeServer(reply=lambda body: "Thinking: no.\n\nCritique: 010", key=KEY)
    with InThread(server) as thread:
        run = start(tmp_path, server.url)
        runs.wait_for(lambda: run.played(DOWN_IN), run, TIMEOUT)
        thread.run(server.stop())
        runs.wait_for(lambda: run.played(BACK_IN), run, TIMEOUT)
        asked = len(server.bodies)
        thread.run(server.start())
        # Without a judge steps are shorter than the breaker's wait: the run must not end before it.
        runs.wait_for(lambda: len(server.bodies) > asked, run, TIMEOUT)
        later = len(list(run.episodes.glob("*.train.*"))) + 3
        runs.wait_for(lambda: run.played(later), run, TIMEOUT)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait(TIMEOUT) == 128 + signal.SIGTERM, run.log[-3000:]
    steps = [m["data"] for m in run.metrics() if "actor/loss" in m["data"]]
    failed = [step[f"{JUDGE}/failed_share"] for step in steps]
    assert failed[0] == 0
    assert max(failed[DOWN_IN - 1 : BACK_IN]) > 0, "the outage is in the metrics"
    assert steps[-1][f"{JUDGE}/breaker_opened_run"] >= 1
    assert failed[-1] < 1, "the judge was asked again when it was back"
    assert (steps[0][f"{JUDGE}/breaker"], steps[-1][f"{JUDGE}/breaker"]) == (0.0, 0.0)
    assert steps[0][f"{JUDGE}/latency_p50_s"] > 0
    assert steps[0][f"{JUDGE}/cost"] == pytest.approx(
        steps[0][f"{JUDGE}/calls"] * (100 * 2 + 20 * 10) / 1e6
    )
    records = read_episodes(run.episodes)
    whole = [r for r in records if r["step"] <= len(steps)]
    assert len(whole) == len(steps) * 12 * 3, "no session was lost"
    assert any("has not answered for" in str(t["error"]) for r in records for t in r["turns"]), (
        "and why is in the log"
    )
    nothing_holds_the_key(tmp_path)


def test_a_run_waits_for_its_judge_and_ends_with_a_checkpoint_without_it(tmp_path: Path) -> None:
    server = JudgeServer(reply=lambda body: "Critique: 010", key=KEY)
    with InThread(server) as thread:
        run = start(
            tmp_path, server.url, "rltf.feedback.on_error=wait", "rltf.feedback.limits.outage_s=30"
        )
        runs.wait_for(lambda: run.played(2), run, TIMEOUT)
        thread.run(server.stop())
        runs.wait_for(lambda: "calls wait for it, at most 30 s" in run.log, run, TIMEOUT)
        last = len(list(run.episodes.glob("*.train.*")))
        thread.run(server.start())
        runs.wait_for(lambda: run.played(last + 2), run, TIMEOUT)
        records = read_episodes(run.episodes, growing=True)
        assert not [t for r in records if r["step"] <= last + 1 for t in r["turns"] if t["error"]]
        thread.run(server.stop())
        assert run.wait(TIMEOUT) == 1, run.log[-3000:]
    (saved,) = (run.episodes.parent).glob("global_step_*")
    line = run.log.strip().splitlines()[-1]
    assert "FeedbackUnavailable" in line
    assert "rltf.feedback.stop_after" in line
    assert f"to resume from step {saved.name.rpartition('_')[2]}" in line
    steps = [m["data"] for m in run.metrics() if "actor/loss" in m["data"]]
    assert f"global_step_{len(steps)}" == saved.name, "no step is lost"


def nothing_holds_the_key(folder: Path) -> None:
    """Neither log, config dump, metrics nor episode log."""
    for path in folder.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path
