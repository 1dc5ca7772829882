"""The job's one judge runtime: a named Ray actor, so that its budget holds whatever the number of
workers that ask.

The trainer makes it first and thereby owns it: it ends with the job. Workers get thin clients to
it. It runs the same `JudgeRuntime` that is used directly outside of Ray, and needs no resources of
the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rltf_verl.findings import ConfigError
from rltf_verl.judge.gateway import Judge
from rltf_verl.judge.runtime import JudgeRuntime, runtime_of
from rltf_verl.judge.settings import JudgeSettings
from rltf_verl.judge.wire import Call, JudgeUnavailable, Reply

logger = logging.getLogger(__name__)

CALLS_AT_ONCE = 100_000
"""Ray would queue calls beyond it silently; the runtime's queue has a deadline."""

GRACE_S = 15.0
"""Seconds after its deadline until a call fails if the actor is silent (its node is gone)."""

START_S = 300.0
"""Seconds that the trainer waits for the actor to start before the run ends."""

SNAPSHOT_S = 5.0
"""Seconds that the trainer waits for metrics before it continues without them."""


class JudgeServer:
    """The actor's server: a runtime per endpoint."""

    def __init__(self) -> None:
        self._runtimes: dict[JudgeSettings, JudgeRuntime] = {}

    async def prepare(self, settings: JudgeSettings) -> None:
        """Raises ValueError, before the first episode does, if a package or the API key is missing
        on this node.
        """
        self._runtime(settings)

    async def complete(self, settings: JudgeSettings, call: Call) -> Reply | str:
        """The reply, or the cause of the failure: Ray would wrap our exceptions."""
        try:
            return await self._runtime(settings).complete(call)
        except JudgeUnavailable as error:
            return error.cause

    async def note(self, settings: JudgeSettings, event: str) -> None:
        """Count an event in a reply."""
        self._runtime(settings).note(event)

    async def snapshot(self) -> dict[str, float]:
        """`rltf/feedback/judge/…` since the last snapshot; a second endpoint is `judge_2`."""
        metrics: dict[str, float] = {}
        for number, runtime in enumerate(self._runtimes.values(), start=1):
            name = "judge" if number == 1 else f"judge_{number}"
            metrics |= {f"rltf/feedback/{name}/{k}": v for k, v in runtime.snapshot().items()}
        return metrics

    async def last_failures(self) -> str:
        """The last failure of each endpoint, with what to change."""
        failures = (runtime.failures.last for runtime in self._runtimes.values())
        return "; ".join(dict.fromkeys(filter(None, failures)))

    def _runtime(self, settings: JudgeSettings) -> JudgeRuntime:
        self._runtimes.setdefault(settings, runtime_of(settings))
        return self._runtimes[settings]


def _actor() -> Any:
    """This job's actor, made by the first caller on its node: the trainer's has the API key."""
    context = ray.get_runtime_context()
    options = {
        "name": f"rltf-judge-{context.get_job_id()}",
        # The trainer makes it; workers, which start later, find it by its name.
        "get_if_exists": True,
        "num_cpus": 0,
        "max_concurrency": CALLS_AT_ONCE,
        "max_restarts": -1,
        # Soft: Ray may start it elsewhere if the node is gone.
        "scheduling_strategy": NodeAffinitySchedulingStrategy(context.get_node_id(), soft=True),
    }
    return ray.remote(JudgeServer).options(**options).remote()


class JobGateway:
    """A worker's client to the job's runtime."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        self._server = _actor()

    async def complete(self, call: Call) -> Reply:
        """Raises JudgeUnavailable."""
        patience = self._settings.longest_call_s + GRACE_S
        try:
            answer = await asyncio.wait_for(
                self._server.complete.remote(self._settings, call), patience
            )
        except asyncio.TimeoutError:  # not the builtin before Python 3.11
            raise JudgeUnavailable(
                f"the job's judge actor did not answer for {patience:g} s; is its node up?"
            ) from None
        except RayError as error:
            raise JudgeUnavailable(
                f"the job's judge actor failed: {type(error).__name__}; Ray restarts it"
            ) from None
        if isinstance(answer, str):
            raise JudgeUnavailable(answer)
        return answer

    def note(self, event: str) -> None:
        """Count an event, without waiting for the actor."""
        self._server.note.remote(self._settings, event)


class JudgeOfTheJob:
    """The trainer's side: it owns the actor and reads its metrics.

    Args:
        judges: what an episode may ask; with none there is no actor.

    Raises:
        ValueError: a package or the API key is missing where the actor runs.
    """

    def __init__(self, judges: Sequence[Judge]) -> None:
        self._server = _actor() if judges else None
        for judge in judges:
            self._prepare(judge)

    def _prepare(self, judge: Judge) -> None:
        assert self._server is not None, "started, because there are judges"
        try:
            ray.get(self._server.prepare.remote(judge.settings), timeout=START_S)
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, ConfigError):
                raise ConfigError(cause.finding.under(judge.block)) from None
            raise ValueError(str(cause)) from None

    def metrics(self) -> dict[str, float]:
        """Metrics since the last call; none while the actor restarts."""
        snapshot: dict[str, float] | None = self._ask("snapshot")
        if snapshot is None and self._server is not None:
            logger.warning("no metrics of the judge in this step: its actor did not answer")
        return snapshot or {}

    def last_failures(self) -> str:
        """The last failure of each endpoint, with what to change; empty without one."""
        return self._ask("last_failures") or ""

    def _ask(self, method: str) -> Any:
        """The actor's answer; None without an actor, or if it does not answer."""
        if self._server is None:
            return None
        with contextlib.suppress(GetTimeoutError, RayError):
            return ray.get(getattr(self._server, method).remote(), timeout=SNAPSHOT_S)
        return None
