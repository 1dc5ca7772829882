"""Our agent-loop worker: verl's own, plus the one fact that it keeps from the loop (is this
validation?).
"""

from __future__ import annotations

from typing import Any

import ray
from tensordict import TensorDict
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

from rltf_verl.adapters.compat import actor_class
from rltf_verl.adapters.rollout.agent_loop import announce
from rltf_verl.adapters.rollout.judge_actor import ask_through_the_job
from rltf_verl.episode import lost


class RLTFAgentLoopWorker(actor_class(AgentLoopWorkerTQ)):  # type: ignore[misc]
    """Passes verl's `validate` to the loops named `rltf…`, as `rltf_validate` (verl uses the plain
    name itself).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        ask_through_the_job()
        super().__init__(*args, **kwargs)

    async def generate_sequences(self, batch: TensorDict) -> None:
        """Tell the sessions which problems are played beside theirs, then start them as verl
        does.
        """
        rollout = self.config.actor_rollout_ref.rollout
        validate = bool(batch["validate"]) if "validate" in batch else False
        size = rollout.val_kwargs.n if validate else rollout.n
        announce(self.config, [str(uid) for uid in batch["uid"]], int(size))
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
            kwargs["rltf_validate"] = bool(trajectory["validate"])
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


class RLTFAgentLoopManager(AgentLoopManagerTQ):
    """`actor_rollout_ref.rollout.agent.agent_loop_manager_class` of our configs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(RLTFAgentLoopWorker)
