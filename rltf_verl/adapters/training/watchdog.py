"""Ends a run whose batch can never be full.

verl 0.9.1 waits for a batch's episodes without a limit. Episodes of a killed agent-loop worker, out
of memory most often, never end; nor do those whose rows wait for a killed storage unit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.exceptions import ActorDiedError, OutOfMemoryError
from transfer_queue import interface

INTERVAL_S = 5.0
"""Seconds between two polls."""


class ActorWatchdog:
    """Polls actors for death.

    Args:
        actors: name -> handle.
    """

    def __init__(self, actors: Mapping[str, Any]) -> None:
        self._actors, self._next = dict(actors), 0.0
        self._pending: dict[Any, str] = {}

    def guard(self, wait: Callable[[str, float], float]) -> Callable[[str, float], float]:
        """verl's pause between two polls of the replay buffer, with a poll of the actors before."""

        def check_and_wait(partition_id: str, last_debug_time: float) -> float:
            self.check()
            return wait(partition_id, last_debug_time)

        return check_and_wait

    def check(self) -> None:
        """Raise RuntimeError if an actor has died. Never blocks."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + INTERVAL_S
        # One question per actor at a time: a busy one answers late.
        for name in set(self._actors) - set(self._pending.values()):
            self._pending[self._actors[name].__ray_ready__.remote()] = name
        # Only answers that are here: a busy actor stays in `_pending` and answers a later poll.
        pending = list(self._pending)
        for answer in ray.wait(pending, num_returns=len(pending), timeout=0, fetch_local=False)[0]:
            self._require_alive(self._pending.pop(answer), answer)

    def _require_alive(self, name: str, answer: Any) -> None:
        try:
            ray.get(answer)
        except (ActorDiedError, OutOfMemoryError) as error:  # the second is from Ray's own killer
            raise RuntimeError(
                f"{name} has died, and verl would wait without end for episodes that need it. The"
                " usual reason is memory: set actor_rollout_ref.rollout.agent.num_workers or"
                " data.train_batch_size lower if Ray or the kernel says so. The same command goes"
                " on from the last checkpoint."
            ) from error
        except ray.exceptions.RayError:
            pass  # unreachable for now; polled again


def actors_of_episodes(agent_loop_manager: Any) -> dict[str, Any]:
    """Actors without which episodes never end: agent-loop workers, storage units of the queue."""
    workers = enumerate(agent_loop_manager.agent_loop_workers)
    units = (getattr(interface, "_TQ_STORAGE", None) or {}).get("SimpleStorage") or {}
    return {
        **{f"agent-loop worker {i}": worker for i, worker in workers},
        **{f"storage unit {name} of the transfer queue": unit for name, unit in units.items()},
    }
