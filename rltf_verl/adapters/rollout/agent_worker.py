"""Our agent-loop worker: verl's own, plus what all its sessions share, and the one fact that it
keeps from the loop (is this validation?).
"""

from __future__ import annotations

from typing import Any

import ray
from tensordict import TensorDict
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

from rltf_verl.adapters.compat import actor_class
from rltf_verl.adapters.rollout.agent_loop import SessionsOfWorker
from rltf_verl.adapters.rollout.judge_actor import JobGateway
from rltf_verl.episode import lost

FOR_THE_LOOP = ("rltf_validate", "rltf_shared")
"""What we add to the dataset row on its way to a loop."""


class RLTFAgentLoopWorker(actor_class(AgentLoopWorkerTQ)):  # type: ignore[misc]
    """Passes what the sessions share and verl's `validate` to the loops named `rltf…`, as
    `rltf_shared` and `rltf_validate` (verl uses the plain name itself).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rltf_shared = SessionsOfWorker(self.config, JobGateway)

    async def generate_sequences(self, batch: TensorDict) -> None:
        """Tell the sessions which problems are played beside theirs, then start them as verl
        does.
        """
        rollout = self.config.actor_rollout_ref.rollout
        validate = bool(batch["validate"]) if "validate" in batch else False
        size = rollout.val_kwargs.n if validate else rollout.n
        self.rltf_shared.groups.announce([str(uid) for uid in batch["uid"]], int(size))
        await super().generate_sequences(batch)

    async def _run_agent_loop(
        self,
        sampling_params: dict[str, Any],
        trajectory: dict[str, Any],
        *,
        agent_name: str,
        **kwargs: Any,
    ) -> Any:
        if agent_name.startswith("rltf"):
            kwargs |= {
                "rltf_validate": bool(trajectory["validate"]),
                "rltf_shared": self.rltf_shared,
            }
        try:
            return await super()._run_agent_loop(
                sampling_params, trajectory, agent_name=agent_name, **kwargs
            )
        except (
            Exception
        ) as error:  # verl logs one traceback per session; `rltf/session/lost_share` counts them
            where = f"session {kwargs.get('session_id')} of row {trajectory.get('sample_index')}"
            lost.name("an episode was lost", f"{where}, step {trajectory.get('step')}", error)
            raise

    async def _agent_loop_postprocess(self, output: Any, validate: bool, **kwargs: Any) -> None:
        """Without what only the loop needs: verl puts the rest of these into the queue."""
        row = {key: value for key, value in kwargs.items() if key not in FOR_THE_LOOP}
        await super()._agent_loop_postprocess(output, validate, **row)


class RLTFAgentLoopManager(AgentLoopManagerTQ):
    """`actor_rollout_ref.rollout.agent.agent_loop_manager_class` of our configs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(RLTFAgentLoopWorker)
