"""verl's handle on one rollout replica: starts the server actor beside the trainer worker it
belongs to.
"""

from __future__ import annotations

from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from verl.workers.rollout.replica import RolloutReplica

from rltf_verl.adapters.cpu.rollout.server import TransformersServer


def server_name(rollout_name: str, replica_rank: int, kind: str = "", suffix: str = "") -> str:
    """Return the name under which Ray knows the server of a replica."""
    return f"{rollout_name}_server_{kind}{replica_rank}_0{suffix}"


class TransformersReplica(RolloutReplica):
    """One server actor per replica. A replica is one rank: a model that needs more belongs on a
    GPU.
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
        node_id = await self.workers[0].__ray_call__.remote(
            lambda _: ray.get_runtime_context().get_node_id()
        )
        kind = "reward_" if self.is_reward_model else "teacher_" if self.is_teacher_model else ""
        name = server_name(self.config.name, self.replica_rank, kind, self.name_suffix)
        server = (
            ray.remote(TransformersServer)
            .options(
                name=name,
                num_cpus=0,  # the logical CPUs are for verl's pools; the threads share the machine
                max_concurrency=self.max_concurrency,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node_id, soft=False),
            )
            .remote(self.config, self.model_config, self.replica_rank)
        )
        await server.ping.remote()
        self.servers, self._server_handle, self._server_address = [server], server, name
