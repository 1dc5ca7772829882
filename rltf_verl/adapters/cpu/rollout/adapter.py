"""The trainer's side of the rollout engine `transformers`: pushes weights from a worker to its replica's server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import ray
import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.base import BaseRollout

from rltf_verl.adapters.cpu.rollout.replica import server_name


class TransformersAdapter(BaseRollout):
    """One per trainer rank. A replica is one rank, so every rank has a server of its own and sends it all weights."""

    is_leader_rank = True

    def __init__(
        self, config: RolloutConfig, model_config: HFModelConfig, device_mesh: DeviceMesh | None, replica_rank: int = -1
    ) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = replica_rank if replica_rank >= 0 else int(os.environ["RANK"])
        self._server: Any = None

    @property
    def server(self) -> Any:
        """The replica's actor, looked up late: verl starts it after the trainer workers."""
        if self._server is None:
            self._server = ray.get_actor(server_name(self.config.name, self.replica_rank))
        return self._server

    async def resume(self, tags: list[str]) -> None:
        """Do nothing: the server keeps its memory."""

    async def release(self) -> None:
        """Do nothing: the server keeps its memory."""

    @torch.no_grad()
    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        peft_config: Any = None,
        **_kwargs: Any,
    ) -> None:
        """Send all weights, bucket by bucket; the server swaps them in when it has the last one."""
        if wire_format != "named_tensors" or peft_config is not None:
            raise ValueError("rollout.name=transformers takes full weights: set model.lora.merge=True for LoRA")
        limit = self.config.checkpoint_engine.update_weights_bucket_megabytes << 20
        waiting: list[tuple[str, torch.Tensor]] | None = None
        for bucket in buckets(weights, limit):
            if waiting is not None:
                await self.server.update_weights.remote(waiting, last=False)
            waiting = bucket
        await self.server.update_weights.remote(waiting or [], last=True, global_steps=global_steps)


def buckets(weights: Iterable[tuple[str, torch.Tensor]], limit_bytes: int) -> Iterator[list[tuple[str, torch.Tensor]]]:
    """Group named tensors into lists of about `limit_bytes`. Every rank must come here: shards are gathered."""
    bucket: list[tuple[str, torch.Tensor]] = []
    size = 0
    for name, tensor in weights:
        full = (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach()
        if bucket and size + full.nbytes > limit_bytes:
            yield bucket
            bucket, size = [], 0
        bucket.append((name, full))
        size += full.nbytes
    if bucket:
        yield bucket
