"""Ends a run whose batch can never be full.

verl 0.9.1 waits for a batch's episodes without a limit. Those of an agent-loop worker that was
killed, out of memory most often, never end; nor do those whose rows wait for a killed storage unit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import ray
from ray.exceptions import ActorDiedError, OutOfMemoryError
from transfer_queue import interface

EVERY_S = 5.0
"""Seconds between two looks."""


class Vital:
    """Looks, now and then, whether these actors live.

    Args:
        actors: name -> handle.
    """

    def __init__(self, actors: Mapping[str, Any]) -> None:
        self._actors, self._next = dict(actors), 0.0
        self._asked: dict[Any, str] = {}

    def check(self) -> None:
        """Raise RuntimeError if one of them has died.

        Nobody is waited for: an actor that is busy answers a later look.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY_S
        for name in set(self._actors) - set(self._asked.values()):
            self._asked[self._actors[name].__ray_ready__.remote()] = name
        asked = list(self._asked)
        for answer in ray.wait(asked, num_returns=len(asked), timeout=0, fetch_local=False)[0]:
            self._require_alive(self._asked.pop(answer), answer)

    def _require_alive(self, name: str, answer: Any) -> None:
        try:
            ray.get(answer)
        except (ActorDiedError, OutOfMemoryError) as error:  # Ray's own killer has its own word
            raise RuntimeError(
                f"{name} has died, and verl would wait without end for episodes that need it. The"
                " usual reason is memory: set actor_rollout_ref.rollout.agent.num_workers or"
                " data.train_batch_size lower if Ray or the kernel says so. The same command goes"
                " on from the last checkpoint."
            ) from error
        except ray.exceptions.RayError:
            pass  # out of reach for now; asked again at the next look


def vital_actors(agent_loop_manager: Any) -> dict[str, Any]:
    """Those without which episodes never end: agent-loop workers, storage units of the queue."""
    workers = dict(enumerate(agent_loop_manager.agent_loop_workers))
    units = (getattr(interface, "_TQ_STORAGE", None) or {}).get("SimpleStorage") or {}
    return {
        **{f"agent-loop worker {i}": worker for i, worker in workers.items()},
        **{f"storage unit {name} of the transfer queue": unit for name, unit in units.items()},
    }


def watched(wait: Callable[[str, float], float], vital: Vital) -> Callable[[str, float], float]:
    """verl's pause between two looks at the replay buffer, with a look at the actors."""

    def wait_and_look(partition_id: str, last_debug_time: float) -> float:
        vital.check()
        return wait(partition_id, last_debug_time)

    return wait_and_look
