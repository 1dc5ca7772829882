"""Loaded into every process of a run of `controller.py`: notes what verl's trainer process does
itself in a step.

Its own time is what passes from the moment the rollout's rows are there to the end of the actor's
update, without the calls of the workers. Nothing that is measured is changed, but for the poll
interval, which is made the same.
"""

from __future__ import annotations

import functools
import time
from typing import Any

import wrapt

WORKER_CALLS = ("compute_log_prob", "update_actor")


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None
) -> float:
    """A reward for verl's own agent loop; its value does not matter here."""
    return float(len(solution_str) % 2)


@wrapt.when_imported("verl.trainer.ppo.v1.trainer_base")
def _arm(trainer_base: Any) -> None:
    trainer = trainer_base.PPOTrainer
    trainer._setup = _with_timed_workers(trainer._setup)
    trainer._balance_batch = _noting_the_start(trainer._balance_batch)
    trainer._step_once = _reporting(trainer._step_once)


def _with_timed_workers(setup: Any) -> Any:
    @functools.wraps(setup)
    def timed_setup(self: Any) -> None:
        setup(self)
        self.replay_buffer.poll_interval = 0.05
        self.probe = {"workers": 0.0}
        for name in WORKER_CALLS:
            setattr(
                self.actor_rollout_wg,
                name,
                _timed(getattr(self.actor_rollout_wg, name), self.probe),
            )

    return timed_setup


def _timed(call: Any, probe: dict[str, float]) -> Any:
    @functools.wraps(call)
    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return call(*args, **kwargs)
        finally:
            probe["workers"] += time.perf_counter() - start

    return timed


def _noting_the_start(balance: Any) -> Any:
    @functools.wraps(balance)
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.probe.update(workers=0.0, wall=time.perf_counter(), cpu=time.process_time())
        return balance(self, *args, **kwargs)

    return noted


def _reporting(step: Any) -> Any:
    @functools.wraps(step)
    def reported(self: Any, metrics: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        batch = step(self, metrics, *args, **kwargs)
        wall, workers = time.perf_counter() - self.probe["wall"], self.probe["workers"]
        metrics["controller/own_s"] = wall - workers
        metrics["controller/cpu_s"] = time.process_time() - self.probe["cpu"]
        metrics["controller/workers_s"] = workers
        metrics["controller/rows"] = float(len(batch))
        metrics["controller/tokens"] = float(sum(tag["response_len"] for tag in batch.tags))
        return batch

    return reported
