"""A run ends when a process dies without which it would wait for ever."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    OutOfMemoryError,
)

from rltf_verl.adapters.training.watchdog import ActorWatchdog

ACTOR = SimpleNamespace(__ray_ready__=SimpleNamespace(remote=object))


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (ActorDiedError(), pytest.raises(RuntimeError, match=r"^agent-loop worker 0 ")),
        (OutOfMemoryError("killed"), pytest.raises(RuntimeError, match=r"^agent-loop worker 0 ")),
        # one that lives or is out of reach does not
        (ActorUnavailableError("away", None), nullcontext()),
        (GetTimeoutError(), nullcontext()),
        (None, nullcontext()),
    ],
)
def test_a_dead_actor_ends_the_run_with_its_name(monkeypatch, error, ends):
    def get(ref):
        if error:
            raise error

    monkeypatch.setattr("ray.get", get)
    monkeypatch.setattr("ray.wait", lambda asked, **_: (asked, []))
    with ends:
        ActorWatchdog({"agent-loop worker 0": ACTOR}).check()
