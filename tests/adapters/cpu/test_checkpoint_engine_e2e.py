"""The checkpoint engine `cpu` under real Ray: two trainer ranks send, two rollout workers receive,
twice.
"""

import asyncio

import pytest
import torch

pytestmark = pytest.mark.e2e
TRAINERS, ROLLOUTS = 2, 2


def worker_class():
    """A class inside a function: Ray sends it by value, its processes cannot import this file."""

    class Worker:
        """Has what verl's workers have around a checkpoint engine: an event loop and
        `execute_checkpoint_engine`.
        """

        def __init__(self, is_master: bool) -> None:
            import verl.checkpoint_engine  # noqa: F401  the plugin adds ours
            from verl.checkpoint_engine.base import CheckpointEngineRegistry

            self.checkpoint_engine = CheckpointEngineRegistry.new(
                "cpu", bucket_size=16, is_master=is_master
            )

        def execute_checkpoint_engine(self, method, *args, **kwargs):
            return getattr(self.checkpoint_engine, method)(*args, **kwargs)

        async def send(self, value):
            weights = ((f"w{i}", torch.full((3,), value + i)) for i in range(5))
            await self.checkpoint_engine.send_weights(weights, global_steps=1)

        async def receive(self):
            return {
                name: tensor.tolist()
                async for name, tensor in self.checkpoint_engine.receive_weights()
            }

    return Worker


@pytest.fixture
def workers(monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    remote = ray.remote(num_cpus=0)(worker_class())
    yield [remote.remote(is_master=rank == 0) for rank in range(TRAINERS + ROLLOUTS)]
    ray.shutdown()


async def on_all(workers, method, arguments):
    calls = [
        w.execute_checkpoint_engine.remote(method, **kw)
        for w, kw in zip(workers, arguments, strict=True)
    ]
    return list(await asyncio.gather(*calls))


async def test_every_receiver_gets_all_weights(workers):
    from verl.checkpoint_engine.base import CheckpointEngineRegistry

    backend, none = CheckpointEngineRegistry.get("cpu"), [{}] * len(workers)
    for value in (0.0, 10.0):
        metadata = await on_all(workers, "prepare", none)
        senders, receivers = backend.build_topology(TRAINERS, ROLLOUTS, metadata)
        arguments = [
            {k: v[i] for k, v in side.items()}
            for side, size in ((senders, TRAINERS), (receivers, ROLLOUTS))
            for i in range(size)
        ]
        await on_all(workers, "init_process_group", arguments)
        calls = [
            *(w.send.remote(value) for w in workers[:TRAINERS]),
            *(w.receive.remote() for w in workers[TRAINERS:]),
        ]
        sent = await asyncio.wait_for(asyncio.gather(*calls), 60)
        assert sent[TRAINERS:] == [{f"w{i}": [value + i] * 3 for i in range(5)}] * ROLLOUTS
        await on_all(workers, "finalize", none)
