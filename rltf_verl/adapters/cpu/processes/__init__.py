"""Ray's processes on a CPU: their threads, and how they start."""

from __future__ import annotations

import logging
import os
import sys

from omegaconf import DictConfig, open_dict

logger = logging.getLogger(__name__)


def prepare(config: DictConfig) -> None:
    """In the driver, before Ray starts."""
    _choose_threads(config)
    _start_fork_server(config)


def _choose_threads(config: DictConfig) -> None:
    """In the environment of the driver, which Ray's processes inherit."""
    if sys.platform != "linux":
        return
    from rltf_verl.adapters.cpu.processes import threads

    ranks = config.trainer.n_gpus_per_node
    if config.trainer.v1.trainer_mode.endswith("separate_async"):
        ranks += config.actor_rollout_ref.rollout.n_gpus_per_node
    cores = threads.cores()
    os.environ |= threads.chosen(os.environ, cores, ranks)
    logger.info(
        "%s=%s per process (cores: %d, ranks at work at once: %d); waiting threads: %s. What the"
        " environment says goes first.",
        threads.THREADS,
        os.environ[threads.THREADS],
        cores,
        ranks,
        os.environ["OMP_WAIT_POLICY"].lower(),
    )


def _start_fork_server(config: DictConfig) -> None:
    """And tell Ray of it, in the config that verl hands to `ray.init`.

    Only for the rollout whose imports it has. Not for a cluster that runs already, which may have
    other nodes; not where the config names another Python; and not where `full_determinism` wants a
    hash seed in every process.
    """
    from rltf_verl.adapters.cpu.processes import server

    ray_init = config.ray_kwargs.ray_init
    chosen = ray_init.get("runtime_env") or {}
    if (
        sys.platform != "linux"
        or config.actor_rollout_ref.rollout.name != "transformers"
        or os.environ.get("RAY_ADDRESS")
        or ray_init.get("address")
        or chosen.get("py_executable")
        or config.actor_rollout_ref.rollout.full_determinism
    ):
        return
    # Idle workers with no environment of the run: none becomes one of its actors.
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    with open_dict(config):
        ray_init.runtime_env = {**chosen, "py_executable": server.start()}
