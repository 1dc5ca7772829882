"""Our agent-loop worker: verl's, plus the context that its episodes share, and whether they
validate.
"""

from __future__ import annotations

import asyncio
import gc
from functools import partial
from typing import Any

import ray
from tensordict import TensorDict
from verl.experimental.agent_loop import agent_loop
from verl.trainer.ppo.v1 import agent_loop_tq
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

from rltf_verl.adapters.compat import actor_class
from rltf_verl.adapters.queue.batched_put import BatchedPuts
from rltf_verl.adapters.queue.columns import DRAW
from rltf_verl.adapters.rollout.agent_loop import RowOutput, WorkerContext
from rltf_verl.adapters.rollout.judge_actor import JobGateway
from rltf_verl.adapters.rollout.loop_lag import Lags, watch_lag
from rltf_verl.episode.failure_log import log_once

FOR_THE_LOOP = ("rltf_validate", "rltf_shared", DRAW)
"""Keys that we add to the dataset row on its way to a loop."""

UNREAD_COLUMNS = ("extra_info", "index", "agent_name", "ability", "tools_kwargs", "raw_prompt")
"""Columns of the dataset that neither verl's trainer nor ours reads from the queue."""


STARTED_AT_ONCE = 16
"""Problems in one turn of the event loop."""


class SharedLoop:
    """`hydra` for verl's module of agent loops, which makes our loop once and not per episode.

    verl 0.9.1 (`AgentLoopWorker._run_agent_loop`) instantiates a loop for every episode, and Hydra
    copies and merges the whole config for it. Ours keeps nothing of an episode.
    """

    def __init__(self, module: Any) -> None:
        self._hydra, self._registry = module.hydra, module._agent_loop_registry
        self._loop: Any = None
        # verl calls `hydra.utils.instantiate`: this object is both `hydra` and its `utils`.
        self.utils = self

    def __getattr__(self, name: str) -> Any:
        """Everything else as it is."""
        return getattr(self._hydra, name)

    def instantiate(self, config: Any, **kwargs: Any) -> Any:
        """`hydra.utils.instantiate`."""
        if config is not self._registry.get("rltf"):
            return self._hydra.utils.instantiate(config=config, **kwargs)
        if self._loop is None:
            self._loop = self._hydra.utils.instantiate(config=config, **kwargs)
        return self._loop


def share_the_work(puts_module: Any = agent_loop_tq, loops_module: Any = agent_loop) -> None:
    """In a worker's process: episodes share the loop and the puts."""
    if not isinstance(puts_module.tq, BatchedPuts):
        to_tensors = puts_module.list_of_dict_to_tensordict
        puts_module.tq = BatchedPuts(puts_module.tq, to_tensors)
        # Rows stay a list until `BatchedPuts` makes one TensorDict of many puts.
        puts_module.list_of_dict_to_tensordict = list
        loops_module.hydra = SharedLoop(loops_module)


class RLTFAgentLoopWorker(actor_class(AgentLoopWorkerTQ)):  # type: ignore[misc]
    """Passes the shared context and verl's `validate` to the loops named `rltf…`, as `rltf_shared`
    and `rltf_validate` (verl uses the plain name itself).
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        share_the_work()
        self.rltf_shared = WorkerContext(self.config, JobGateway)
        self._lags = Lags()
        self._watch: asyncio.Task[None] | None = None
        # Episodes start one after the other, each in its own turn of the event loop.
        self._start = asyncio.Lock()
        # Else each full collection looks at all that the imports made, for 0.3 s.
        gc.freeze()

    async def generate_sequences(self, batch: TensorDict) -> None:
        """Announce the problems of the call as one cohort, then start the episodes as verl does."""
        if self._watch is None:
            busy = partial(bool, self.background_tasks)
            self._watch = asyncio.create_task(watch_lag(self._lags, busy))
        rollout = self.config.actor_rollout_ref.rollout
        validate = bool(batch["validate"]) if "validate" in batch else False
        size = rollout.val_kwargs.n if validate else rollout.n
        self.rltf_shared.groups.announce([str(uid) for uid in batch["uid"]], int(size))
        # Thousands of starts in one turn of the loop hold up what is already running.
        for part in batch.split(STARTED_AT_ONCE):
            await super().generate_sequences(part)
            await asyncio.sleep(0)

    async def loop_lag(self) -> Lags:
        """Delay of the event loop since the last call, while episodes ran."""
        lags = self._lags.copy()
        self._lags.clear()
        return lags

    async def missing_episodes(self) -> int:
        """At the end of the run: episodes that the log lacks."""
        return await self.rltf_shared.close()

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
        async with self._start:
            await asyncio.sleep(0)  # as above
        try:
            return await super()._run_agent_loop(
                sampling_params, trajectory, agent_name=agent_name, **kwargs
            )
        except Exception as error:
            # verl logs one traceback per episode; `rltf/session/lost_share` counts them.
            where = f"episode {kwargs.get('session_id')} of row {trajectory.get('sample_index')}"
            log_once("an episode was lost", f"{where}, step {trajectory.get('step')}", error)
            raise

    async def _agent_loop_postprocess(self, output: Any, validate: bool, **kwargs: Any) -> None:
        """Without what only the loop needs: verl puts the rest of these into the queue."""
        scored = isinstance(output, list) and all(isinstance(row, RowOutput) for row in output)
        dropped = (*FOR_THE_LOOP, *UNREAD_COLUMNS) if scored else FOR_THE_LOOP
        row = {key: value for key, value in kwargs.items() if key not in dropped}
        await super()._agent_loop_postprocess(output, validate, **row)


class RLTFAgentLoopManager(AgentLoopManagerTQ):
    """`actor_rollout_ref.rollout.agent.agent_loop_manager_class` of our configs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(RLTFAgentLoopWorker)
