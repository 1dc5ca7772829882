"""Our worker between verl's and the agent loops."""

import asyncio
import logging

import pytest
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ

from rltf_verl.adapters.agent_worker import RLTFAgentLoopWorker
from rltf_verl.adapters.compat import actor_class
from rltf_verl.adapters.session_metrics import lost_share
from rltf_verl.episode import lost

TRAJECTORY = {"step": 3, "sample_index": 7, "rollout_n": 0, "validate": False}


@pytest.fixture
def worker(monkeypatch):
    """verl's part of it raises, as it does when anything of a session raises."""

    async def broken(self, sampling_params, trajectory, *, agent_name, **kwargs):
        raise TypeError(f"session {kwargs['session_id']}")

    monkeypatch.setattr(actor_class(AgentLoopWorkerTQ), "_run_agent_loop", broken)
    monkeypatch.setattr(lost, "_named", set())
    return RLTFAgentLoopWorker.__new__(RLTFAgentLoopWorker)


def test_a_lost_episode_is_named_once_and_verl_hears_of_all_of_them(worker, caplog):
    async def sessions():
        runs = (worker._run_agent_loop({}, TRAJECTORY, agent_name="rltf", session_id=i) for i in range(4))
        return await asyncio.gather(*runs, return_exceptions=True)

    with caplog.at_level(logging.WARNING):
        outcomes = asyncio.run(sessions())
    assert [str(e) for e in outcomes] == [f"session {i}" for i in range(4)]
    (record,) = caplog.records
    assert "an episode was lost: session 0 of row 7, step 3: TypeError: session 0 (" in record.getMessage()


def test_the_share_of_lost_sessions():
    assert [lost_share(n, 8) for n in (8, 6, 0)] == [0.0, 0.25, 1.0]
    assert lost_share(9, 8) == 0.0, "a dataset's own number of sessions may be larger"
