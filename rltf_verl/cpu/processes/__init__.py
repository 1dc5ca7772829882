"""Ray's processes on a CPU: their threads, and how they start."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from omegaconf import DictConfig, open_dict

from rltf_verl.sampler import ROLLOUT_NAME

logger = logging.getLogger(__name__)

THREADS = "OMP_NUM_THREADS"
QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""Microseconds of CPU time per period, as `docker run --cpus` sets it."""

WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
"""Settings of GNU's and Intel's OpenMP: a waiting thread sleeps. By default it spins for a while,
which holds up the one that it waits for where processes share the cores.
"""


def prepare(config: DictConfig) -> None:
    """In the driver, before Ray starts."""
    if sys.platform == "linux":
        _choose_threads(config)
        _start_fork_server(config)


def available_cores(quota: Path = QUOTA) -> int:
    """Cores that this process may use: of those it may run on, what a container's quota leaves."""
    allowed = len(os.sched_getaffinity(0))
    if not quota.is_file():
        return allowed
    # `200000 100000`, two cores, or `max 100000`.
    most, period = quota.read_text().split()
    return allowed if most == "max" else max(1, min(allowed, int(most) // int(period)))


def thread_variables(
    environment: Mapping[str, str], num_cores: int, num_ranks: int
) -> dict[str, str]:
    """Variables to set; those that the environment has stay.

    One core is left to the processes that only pass rows on. Trainer and rollout of one rank take
    turns, so each gets the rank's share.

    Args:
        environment: the driver's.
        num_cores: that the run may use.
        num_ranks: that compute at the same time.

    Example:
        >>> thread_variables({"OMP_WAIT_POLICY": "ACTIVE"}, 8, 2)
        {'OMP_NUM_THREADS': '3', 'KMP_BLOCKTIME': '0'}
    """
    wanted = {THREADS: str(max(1, (num_cores - 1) // num_ranks)), **WAITING}
    return {name: value for name, value in wanted.items() if name not in environment}


def _choose_threads(config: DictConfig) -> None:
    """In the environment of the driver, which Ray's processes inherit."""
    ranks = config.trainer.n_gpus_per_node
    if config.trainer.v1.trainer_mode.endswith("separate_async"):
        ranks += config.actor_rollout_ref.rollout.n_gpus_per_node
    cores = available_cores()
    os.environ |= thread_variables(os.environ, cores, ranks)
    logger.info(
        "%s=%s per process (cores: %d, ranks at work at once: %d); waiting threads: %s. Variables"
        " of the environment take precedence.",
        THREADS,
        os.environ[THREADS],
        cores,
        ranks,
        os.environ["OMP_WAIT_POLICY"].lower(),
    )


def _start_fork_server(config: DictConfig) -> None:
    """Start the fork server and register it for `ray.init`.

    Only for the rollout whose imports it has. Not for a cluster that runs already, which may have
    other nodes; not where the config names another Python; and not where `full_determinism` wants a
    hash seed in every process.
    """
    ray_init = config.ray_kwargs.ray_init
    runtime_env = ray_init.get("runtime_env") or {}
    if (
        config.actor_rollout_ref.rollout.name != ROLLOUT_NAME
        or os.environ.get("RAY_ADDRESS")
        or ray_init.get("address")
        or runtime_env.get("py_executable")
        or config.actor_rollout_ref.rollout.full_determinism
    ):
        return
    from rltf_verl.cpu.processes import server

    # Idle workers without the run's environment: none becomes one of its actors.
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    with open_dict(config):
        ray_init.runtime_env = {**runtime_env, "py_executable": server.start()}
