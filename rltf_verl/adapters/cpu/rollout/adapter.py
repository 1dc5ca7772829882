"""The trainer's side of the rollout engine `transformers`: pushes weights from a worker to its
replica's server.
"""

from __future__ import annotations

import os
from typing import Any

import ray
import torch
from torch.distributed.device_mesh import DeviceMesh
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.base import BaseRollout

from rltf_verl.adapters.cpu.buckets import Bucket, Weights, buckets
from rltf_verl.adapters.cpu.rollout.replica import server_name


class TransformersAdapter(BaseRollout):
    """One per trainer rank. A replica is one rank, so every rank has a server of its own and sends
    it all weights.
    """

    is_leader_rank = True

    def __init__(
        self,
        config: RolloutConfig,
        model_config: HFModelConfig,
        device_mesh: DeviceMesh | None,
        replica_rank: int = -1,
    ) -> None:
        super().__init__(config, model_config, device_mesh)  # type: ignore[arg-type]  # kept only
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
    async def update_weights(  # type: ignore[override]  # verl passes these by name
        self,
        weights: Weights,
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        peft_config: dict[str, Any] | None = None,
        base_sync_done: bool = True,
        **_kwargs: Any,
    ) -> None:
        """Send weights, bucket by bucket; the server swaps them in when it has the last one.

        For LoRA that is not merged verl sends the base weights once (`base_sync_done=False`), then
        adapters.
        """
        if wire_format != "named_tensors":
            raise ValueError(
                f"rollout.checkpoint_engine.backend sends {wire_format}, which"
                " rollout.name=transformers cannot read: set the backend to cpu"
            )
        adapter = peft_config if base_sync_done else None
        limit = self.config.checkpoint_engine.update_weights_bucket_megabytes << 20
        waiting: Bucket = []
        async for bucket in buckets(weights, limit):
            if waiting:
                await self.server.update_weights.remote(waiting, last=False)
            waiting = bucket
        await self.server.update_weights.remote(
            waiting, last=True, global_steps=global_steps, peft_config=adapter
        )
