"""The checkpoint engine `cpu`: weights from the trainer to rollout replicas in other processes,
through Ray.

verl's own engines (nccl, nixl, …) want devices. Here the first trainer rank puts each bucket into
Ray's object store once and hands every receiver a reference. Opt-in by
`actor_rollout_ref.rollout.checkpoint_engine.backend=cpu`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from typing import Any

import ray
import torch
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry

from rltf_verl.sampler.weights import Bucket, Wire, buckets, packed, unpacked

NAME = "cpu"


@CheckpointEngineRegistry.register(NAME)
class CPUCheckpointEngine(CheckpointEngine):
    """One per trainer rank and per rollout worker."""

    def __init__(self, bucket_size: int, is_master: bool = False) -> None:
        self.bucket_size, self.is_master = bucket_size, is_master
        self._receivers: list[Any] = []
        self._received: asyncio.Queue[Bucket | None] = asyncio.Queue()

    def prepare(self) -> Any:
        """Return a handle on the process that this engine lives in."""
        return ray.get_runtime_context().current_actor

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[Any]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Tell every trainer rank who receives; receivers need to know nothing."""
        # One result of `prepare` per process: verl lists the trainer's ranks first.
        receivers = metadata[actor_wg_world_size:]
        return {"receivers": [receivers] * actor_wg_world_size}, {
            "receivers": [[]] * rollout_world_size
        }

    def init_process_group(self, receivers: list[Any]) -> None:  # type: ignore[override]  # by name
        """Note who receives."""
        self._receivers = receivers

    def finalize(self) -> None:
        """Forget who receives: replicas may come and go between two updates."""
        self._receivers = []

    @torch.no_grad()
    async def send_weights(
        self,
        weights: Generator[tuple[str, torch.Tensor], None, None],
        global_steps: int | None = None,
    ) -> None:
        """Send all weights. Every rank must iterate over them (shards are gathered), the first one
        sends.
        """
        async for bucket in buckets(weights, self.bucket_size):
            await self._send(packed(bucket))
        await self._send(None)

    async def receive_weights(  # type: ignore[override]  # verl iterates over it too
        self, global_steps: int | None = None
    ) -> AsyncGenerator[tuple[str, torch.Tensor], None]:
        """Yield the weights as they come."""
        while (bucket := await self._received.get()) is not None:
            for item in bucket:
                yield item

    def deliver(self, wire: Wire | None) -> None:
        """Take a bucket from the sender; None is the end."""
        self._received.put_nowait(None if wire is None else unpacked(wire))

    async def _send(self, wire: Wire | None) -> None:
        if self.is_master:
            # Not `__ray_call__`: on an async actor that runs outside of the event loop, which would
            # not wake up.
            shared = ray.put(wire)
            await asyncio.gather(
                *(r.execute_checkpoint_engine.remote("deliver", shared) for r in self._receivers)
            )
