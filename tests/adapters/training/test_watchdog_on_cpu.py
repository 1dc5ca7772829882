"""A run ends when a process dies without which it would wait for ever."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    OutOfMemoryError,
)

from rltf_verl.adapters.training import watchdog
from rltf_verl.adapters.training.watchdog import ActorWatchdog

ACTOR = SimpleNamespace(__ray_ready__=SimpleNamespace(remote=object))


@pytest.fixture
def answers(monkeypatch):
    """What Ray says of an actor: raised, or returned."""

    def say(answer):
        def get(ref):
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(watchdog.ray, "get", get)
        monkeypatch.setattr(watchdog.ray, "wait", lambda asked, **_: (asked, []))

    return say


@pytest.mark.parametrize("error", [ActorDiedError(), OutOfMemoryError("1 worker(s) were killed")])
def test_a_dead_actor_ends_the_run_with_its_name(answers, error):
    answers(error)
    with pytest.raises(RuntimeError, match=r"^agent-loop worker 0 "):
        ActorWatchdog({"agent-loop worker 0": ACTOR}).check()


@pytest.mark.parametrize("answer", [ActorUnavailableError("away", None), GetTimeoutError(), True])
def test_one_that_lives_or_is_out_of_reach_does_not(answers, answer):
    answers(answer)
    ActorWatchdog({"agent-loop worker 0": ACTOR}).check()


KILLED = """
import os, sys, time
os.environ |= {"RAY_memory_usage_threshold": "0.01", "RAY_memory_monitor_refresh_ms": "100"}
import ray
from rltf_verl.adapters.training.watchdog import ActorWatchdog
ray.init(num_cpus=1, include_dashboard=False, object_store_memory=80_000_000)
actor = ray.remote(type("Worker", (), {})).remote()
watch = ActorWatchdog({"agent-loop worker 0": actor})
for _ in range(60):
    time.sleep(1)
    watch._next = 0
    watch.check()
"""


@pytest.mark.e2e
@pytest.mark.nightly
def test_so_does_one_that_ray_kills_for_its_memory():
    run = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True)
    assert "RuntimeError: agent-loop worker 0 has died" in run.stderr
