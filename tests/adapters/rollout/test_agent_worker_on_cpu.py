"""Our worker between verl's and the agent loops, and how late its event loop is."""

import asyncio
import inspect
import re
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from omegaconf import OmegaConf
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopWorkerTQ
from verl.utils import tensordict_utils as tu

from rltf_verl.adapters.compat import actor_class
from rltf_verl.adapters.rollout.agent_loop import WorkerContext
from rltf_verl.adapters.rollout.agent_worker import RLTFAgentLoopWorker, SharedLoop
from rltf_verl.adapters.rollout.loop_lag import Lags, lag_metrics
from rltf_verl.episode import failure_log
from rltf_verl.feedback.group import Groups
from rltf_verl.jsonl import PatientWriter

TRAJECTORY = {"step": 3, "sample_index": 7, "rollout_n": 0, "validate": False}


@pytest.fixture
def worker(monkeypatch):
    """verl's part of it raises, as it does when anything of an episode raises."""

    async def broken(self, sampling_params, trajectory, *, agent_name, **kwargs):
        raise TypeError(f"session {kwargs['session_id']}")

    monkeypatch.setattr(actor_class(AgentLoopWorkerTQ), "_run_agent_loop", broken)
    monkeypatch.setattr(failure_log, "_logged", set())
    worker = RLTFAgentLoopWorker.__new__(RLTFAgentLoopWorker)
    worker.rltf_shared = SimpleNamespace(groups=Groups())
    worker.background_tasks = set()
    worker._lags, worker._watch, worker._start = Lags(), None, asyncio.Lock()
    return worker


async def test_a_lost_episode_is_named_once_and_verl_hears_of_all_of_them(worker, caplog):
    runs = (
        worker._run_agent_loop({}, TRAJECTORY, agent_name="rltf", session_id=i) for i in range(4)
    )
    outcomes = await asyncio.gather(*runs, return_exceptions=True)
    assert [str(e) for e in outcomes] == [f"session {i}" for i in range(4)]
    (record,) = caplog.records
    assert (
        "an episode was lost: episode 0 of row 7, step 3: TypeError: session 0 ("
        in record.getMessage()
    )


def test_the_problems_of_a_call_are_a_cohort_before_any_episode_starts(worker, monkeypatch):
    """As verl sends them: one tensordict, `validate` only in validations. They start in parts."""
    announced, started = [], []

    async def started_by_verl(self, batch):
        started.append((list(announced), list(batch["uid"]), "validate" in batch))

    monkeypatch.setattr("rltf_verl.adapters.rollout.agent_worker.STARTED_AT_ONCE", 2)
    monkeypatch.setattr(actor_class(AgentLoopWorkerTQ), "generate_sequences", started_by_verl)
    monkeypatch.setattr(
        worker.rltf_shared.groups, "announce", lambda uids, size: announced.append((uids, size))
    )
    worker.config = OmegaConf.create(
        {"actor_rollout_ref": {"rollout": {"n": 4, "val_kwargs": {"n": 2}}}}
    )
    for settings in ({}, {"validate": True}):
        batch = tu.get_tensordict({"uid": np.array(["a", "b", "c"], dtype=object)}, settings)
        asyncio.run(worker.generate_sequences(batch.chunk(1)[0]))
    assert announced == [(["a", "b", "c"], 4), (["a", "b", "c"], 2)]
    trained, validated = [(announced[:1], False), (announced, True)]
    assert started == [
        (seen, uids, validates)
        for seen, validates in (trained, validated)
        for uids in (["a", "b"], ["c"])
    ]


def test_a_loop_gets_what_its_worker_shares_and_verl_s_queue_does_not(worker, monkeypatch):
    """verl gives the loop the rest of the keywords, and puts the same ones into the queue."""
    of_loop, of_queue = {}, {}

    async def played(self, sampling_params, trajectory, *, agent_name, **kwargs):
        of_loop.update(kwargs)
        await self._agent_loop_postprocess([], trajectory["validate"], **kwargs)

    async def queued(self, output, validate, **kwargs):
        of_queue.update(kwargs)

    base = actor_class(AgentLoopWorkerTQ)
    monkeypatch.setattr(base, "_run_agent_loop", played)
    monkeypatch.setattr(base, "_agent_loop_postprocess", queued)
    asyncio.run(worker._run_agent_loop({}, TRAJECTORY, agent_name="rltf", session_id=0))
    assert of_loop["rltf_shared"] is worker.rltf_shared
    assert of_loop["rltf_validate"] is False
    assert of_queue == {"session_id": 0}


def test_a_worker_makes_our_loop_once_and_every_other_for_its_episode():
    ours, other = {"_target_": "ours"}, {"_target_": "ours"}
    hydra = SimpleNamespace(utils=SimpleNamespace(instantiate=lambda config, **_: object()))
    module = SimpleNamespace(hydra=hydra, _agent_loop_registry={"rltf": ours, "other": other})
    loops = SharedLoop(module).utils
    assert loops.instantiate(config=ours, a=1) is loops.instantiate(config=ours, a=1)
    assert loops.instantiate(config=other) is not loops.instantiate(config=other)


async def test_an_episode_is_written_in_the_logs_own_thread():
    """So that a slow disk does not hold up the event loop."""
    shared, threads = WorkerContext.__new__(WorkerContext), []
    shared.config = SimpleNamespace(seed=0)
    shared.log = SimpleNamespace(
        append=lambda episode, **_: threads.append(threading.current_thread()),
        writer=PatientWriter("a log"),
    )
    row = {"global_steps": 1, "rltf_validate": False, "uid": "u", "data_source": "d"}
    await shared.write("episode", [{"content": "q"}], row)
    assert [thread is threading.main_thread() for thread in threads] == [False]


WORKER = """
import asyncio, re, time
from rltf_verl.adapters.rollout import loop_lag

loop_lag.STUCK_S, lags = 1.0, loop_lag.Lags()

async def worker():
    watch = asyncio.create_task(loop_lag.watch_lag(lags, lambda: {busy}))
    await asyncio.sleep(0.1)
    {call}
    await asyncio.sleep(0.1)

asyncio.run(worker())
print(sum(lag > 100 for lag in lags.elements()))
"""


@pytest.mark.parametrize(
    ("call", "busy", "ends"),
    [
        ("await asyncio.to_thread(re.match, '(a+)+b', 'a' * 60)", True, True),
        ("time.sleep(3)", True, False),  # it only holds the loop
        ("time.sleep(3)", False, False),
    ],
)
def test_a_worker_that_no_thread_can_stop_says_where_it_stands_and_ends(
    call: str, busy: bool, ends: bool
):
    """It ends a second after all threads stood. What holds the loop while episodes run delays every
    tick of its time, else the share of late ticks would not be the share of time.
    """
    ended = subprocess.run(
        [sys.executable, "-c", WORKER.format(call=call, busy=busy)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == ends, ended.stderr
    assert ("Timeout" in ended.stderr) == ends
    assert bool(re.search(r"\bre(/__init__)?\.py", ended.stderr)) == ends
    assert ends or (int(ended.stdout) > 100) == busy


def test_the_metrics_are_those_of_all_workers(monkeypatch: pytest.MonkeyPatch):
    answers = [Lags({1: 195, 40: 3}), Lags({300: 2})]
    monkeypatch.setattr("ray.get", lambda asked, timeout: asked)
    assert lag_metrics(answers) == {
        "rltf/worker/loop_lag_p99_s": 0.04,
        "rltf/worker/loop_lag_s/max": 0.3,
    }
    assert lag_metrics([]) == lag_metrics([Lags()]) == {}


def test_verl_still_puts_rows_where_a_worker_shares_them():
    plain = actor_class(AgentLoopWorkerTQ)
    store = inspect.getsource(plain._agent_loop_postprocess)
    assert "fields=list_of_dict_to_tensordict(fields)," in store
    both = store + inspect.getsource(plain._run_prompt)
    assert both.count("tq.") == both.count("await tq.async_kv_") == 4
