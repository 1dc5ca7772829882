"""One judge runtime for a whole job: four worker processes, 1000 episodes, a judge of which a fifth
goes wrong.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import asdict

import pytest
import ray

from rltf_verl.adapters.rollout.judge_actor import JobGateway, JudgeOfTheJob
from rltf_verl.config import FeedbackConfig
from rltf_verl.episode.run import run_episode
from rltf_verl.feedback import make_provider
from rltf_verl.judge.gateway import Judge, judges_of
from rltf_verl.judge.settings import JudgeSettings
from rltf_verl.judge.wire import JudgeUnavailable
from tests.e2e.runs import ROOT
from tests.support.episode_fakes import (
    PROBLEM,
    QUESTION,
    EchoEnv,
    ScriptedPolicy,
    parts_with,
)
from tests.support.judge.calls import call, settings
from tests.support.judge.server import FAULTS, InThread, JudgeServer

pytestmark = pytest.mark.e2e
WORKERS, SESSIONS, CAP, FAULT_SHARE, TIMEOUT = 4, 1000, 48, 0.2, 400
OFTEN = [fault for fault in FAULTS if fault != "hang"] * 3
"""A request that hangs holds its place for ten seconds."""


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    env = {"env_vars": {"PYTHONPATH": str(ROOT)}}
    ray.init(
        address="local",
        num_cpus=WORKERS,
        include_dashboard=False,
        runtime_env=env,
        log_to_driver=False,
    )
    yield
    ray.shutdown()


class Worker:
    """Plays episodes as an agent-loop worker does: all at once."""

    def __init__(self, options: dict) -> None:
        provider = make_provider("judge", **options)
        feedback = FeedbackConfig(on_error="correctness")
        self._parts = parts_with(EchoEnv(), provider, feedback).open(JobGateway)

    async def play(self, sessions: range) -> Counter[str]:
        """How the episodes went."""
        return Counter(await asyncio.gather(*(self._play(i) for i in sessions)))

    async def _play(self, session: int) -> str:
        episode = await run_episode(
            self._parts,
            ScriptedPolicy(["no", "yes"]),
            PROBLEM,
            QUESTION,
            session_id=session,
            validate=False,
            seed_of=lambda place: 10 * session,
        )
        assert [turn.attempt.text for turn in episode.turns] == ["no", "yes"]
        return episode.turns[0].feedback.provider


@pytest.mark.nightly  # in parts: tests/judge/test_storm_on_cpu.py, the next test, test_judge_e2e.py
def test_no_episode_is_lost_and_the_budget_holds_across_workers() -> None:
    server = JudgeServer(
        latency=lambda rng: rng.uniform(0, 0.1),
        fault_share=FAULT_SHARE,
        faults=["hang", *OFTEN],
        keep_bodies=False,
    )
    with InThread(server):
        limits = {
            "max_concurrency": CAP,
            "request_timeout_s": 10.0,
            "deadline_s": 300.0,
            "backoff_s": 0.05,
        }
        options = {
            "style": "short",
            "endpoint": {"base_url": server.url, "model": "m"},
            "limits": limits,
        }
        judge = JudgeOfTheJob(judges_of(make_provider("judge", **options)))
        workers = [ray.remote(Worker).options(num_cpus=1).remote(options) for _ in range(WORKERS)]
        share = SESSIONS // WORKERS
        parts = [range(i * share, (i + 1) * share) for i in range(WORKERS)]
        played = ray.get(
            [w.play.remote(part) for w, part in zip(workers, parts, strict=True)], timeout=TIMEOUT
        )
    heard = sum(played, Counter())
    metrics = {
        name.removeprefix("rltf/feedback/judge/"): value for name, value in judge.metrics().items()
    }
    assert heard.total() == metrics["calls"] == SESSIONS, "none lost, none twice"
    assert heard["correctness"] == round(metrics["failed_share"] * SESSIONS) <= 10
    assert server.peak <= CAP
    assert CAP / 2 < metrics["in_flight/max"] <= CAP
    requests = round(SESSIONS * (1 + metrics["retries_per_call"]))
    timeouts = round(metrics["faults/timeout_share"] * requests)
    assert 0 <= requests - server.counts.total() <= timeouts, (
        "every request is counted; a late one may never arrive"
    )
    faults = sum(value for name, value in metrics.items() if name.startswith("faults/"))
    wrong = 1 - server.counts["answered"] / requests
    assert 0.15 < wrong <= faults + 1e-9 < wrong + 0.1, (
        "every fault is counted; an answer that came too late is one"
    )


async def test_an_actor_that_is_killed_costs_calls_and_comes_back() -> None:
    with InThread(JudgeServer(faults=["hang"], script=["hang"])) as thread:
        wanted = settings(thread.server.url)
        judge = JudgeOfTheJob([judge_with(wanted)])
        gateway = JobGateway(wanted)
        asked = asyncio.create_task(gateway.complete(call()))
        await until(lambda: thread.server.counts["hang"])
        ray.kill(gateway._server, no_restart=False)
        with pytest.raises(JudgeUnavailable, match="the job's judge actor failed"):
            await asked
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                assert "Critique" in (await gateway.complete(call())).text
                break
            except JudgeUnavailable:
                await asyncio.sleep(0.2)
        else:
            pytest.fail("it did not come back")
        assert judge.metrics()


def judge_with(settings: JudgeSettings) -> Judge:
    return Judge(asdict(settings), "rltf.feedback")


async def until(condition) -> None:
    for _ in range(600):
        if condition():
            return
        await asyncio.sleep(0.1)
    pytest.fail("it did not happen within a minute")


def test_a_run_without_a_judge_has_no_actor() -> None:
    assert JudgeOfTheJob([]).metrics() == {}


def test_a_missing_key_is_one_error_in_the_trainer() -> None:
    wanted = settings("http://127.0.0.1:9/v1", endpoint={"api_key_env": "RLTF_NO_SUCH_KEY"})
    with pytest.raises(
        ValueError,
        match=r"^rltf\.feedback\.endpoint\.api_key_env=RLTF_NO_SUCH_KEY: this environment variable",
    ):
        JudgeOfTheJob([judge_with(wanted)])
