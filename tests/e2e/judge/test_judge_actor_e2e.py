"""One judge runtime for a whole job, in an actor of Ray that may die."""

import asyncio
import time
from dataclasses import asdict

import pytest
import ray

from rltf_verl.adapters.rollout.judge_actor import JobGateway, JudgeOfTheJob
from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.wire import JudgeUnavailable
from tests.e2e.runs import ROOT
from tests.support.judge.calls import call, settings
from tests.support.judge.server import InThread, JudgeServer
from tests.support.waiting import until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module", autouse=True)
def _cluster():
    env = {"env_vars": {"PYTHONPATH": str(ROOT)}}
    ray.init(
        address="local",
        num_cpus=1,
        include_dashboard=False,
        runtime_env=env,
        log_to_driver=False,
    )
    yield
    ray.shutdown()


async def test_an_actor_that_is_killed_costs_calls_and_comes_back() -> None:
    with InThread(JudgeServer(faults=["hang"], script=["hang"])) as thread:
        wanted = settings(thread.server.url)
        blocks = {name: asdict(wanted)[name] for name in ("endpoint", "limits")}
        judge = JudgeOfTheJob([Judge(blocks, "rltf.feedback")])
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


def test_a_run_without_a_judge_has_no_actor() -> None:
    assert JudgeOfTheJob([]).metrics() == {}
