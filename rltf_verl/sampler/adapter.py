"""verl's two handles on the rollout engine `transformers`: the replica, which starts the server
actor, and the trainer's side, which pushes weights from a worker to its replica's server.
"""

from __future__ import annotations

import os
from typing import Any

import ray
import torch
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from torch.distributed.device_mesh import DeviceMesh
from verl.plugin.platform import get_platform
from verl.utils.device import get_device_name, get_resource_name, get_visible_devices_keyword
from verl.utils.torch_dtypes import PrecisionType
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica

from rltf_verl.sampler.server import TransformersServer
from rltf_verl.sampler.weights import Weights, Wire, buckets, packed


def server_name(rollout_name: str, replica_rank: int, kind: str = "", suffix: str = "") -> str:
    """Return the name under which Ray knows the server of a replica."""
    return f"{rollout_name}_server_{kind}{replica_rank}_0{suffix}"


def _place(_worker: Any) -> tuple[str, list[str]]:
    """A worker's node, and the ids of its devices."""
    context = ray.get_runtime_context()
    return context.get_node_id(), context.get_accelerator_ids().get(get_resource_name(), [])


class TransformersReplica(RolloutReplica):
    """One server actor per replica, on its worker's device. A replica is one rank: a larger model
    belongs to vLLM.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.world_size != 1:
            raise ValueError(
                "rollout.name=transformers has no model parallelism: set"
                " rollout.tensor_model_parallel_size=1, data_parallel_size=1 and"
                " pipeline_model_parallel_size=1"
            )

    async def launch_servers(self) -> None:
        """Start the server on the node of this replica's worker and wait until it has its model."""
        node_id, devices = await self.workers[0].__ray_call__.remote(_place)
        kind = "reward_" if self.is_reward_model else "teacher_" if self.is_teacher_model else ""
        name = server_name(self.config.name, self.replica_rank, kind, self.name_suffix)
        options: dict[str, Any] = {
            "name": name,
            "num_cpus": 0,  # the logical CPUs are for verl's pools; the threads share the machine
            "max_concurrency": self.max_concurrency,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(node_id=node_id, soft=False),
        }
        if get_device_name() != "cpu":
            # Ray hides every GPU from an actor that claims none, and the worker claims this one.
            # Named before the process starts: verl asks for devices when it is imported.
            visible = dict.fromkeys(get_platform().ray_noset_envvars(), "1")
            visible[get_visible_devices_keyword()] = ",".join(devices)
            options["runtime_env"] = {"env_vars": visible}
        actor = ray.remote(TransformersServer).options(**options)
        server = actor.remote(self.config, self.model_config, self.replica_rank)
        await server.ping.remote()
        self.servers, self._server_handle, self._server_address = [server], server, name


class TransformersAdapter(BaseRollout):
    """One per trainer rank. A replica is one rank, so every rank has its server and sends it all
    weights.
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
        dtype = None if adapter else PrecisionType.to_dtype(self.config.dtype)
        # One bucket behind: only after the next one has come is it known that this was not the
        # last.
        waiting: Wire = []
        async for bucket in buckets(weights, limit, dtype):
            if waiting:
                await self.server.update_weights.remote(waiting, last=False)
            waiting = packed(bucket)
        await self.server.update_weights.remote(
            waiting, last=True, global_steps=global_steps, peft_config=adapter
        )
