"""The driver of a run, from the checks to its end: its folders are locked, its console is quiet,
and whatever ends it is named in the last line.
"""

from __future__ import annotations

import atexit
import functools
import logging
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import ray
from omegaconf import DictConfig

from rltf_verl.adapters.console import MARK, quiet_streams
from rltf_verl.config import ConfigError
from rltf_verl.runlog.folder_lock import FolderInUseError, FolderLock

logger = logging.getLogger(__name__)

CHECKPOINTS = "trainer.default_local_dir"
LATEST = "latest_checkpointed_iteration.txt"
"""verl's file in the folder of checkpoints, with the step of the last whole one."""

_DIED = re.compile("WORKER_DIED|NODE_DIED|oom_context")
"""In Ray's cause of an actor's death: not `RAY_KILL`, `OWNER_DIED`, `REF_DELETED`."""


def begin_run(config: DictConfig) -> None:
    """After the checks, before Ray starts.

    Raises:
        ConfigError: another run uses the folder.
    """
    lock_folders(config)
    quiet_streams()
    report_end(config)


def lock_folders(config: DictConfig) -> None:
    """Keep other runs away from the checkpoints and the episode log."""
    checkpoints = Path(config.trainer.default_local_dir).absolute()
    folders = {CHECKPOINTS: checkpoints}
    log = config.rltf.episode_log.dir
    if log and not Path(log).absolute().is_relative_to(checkpoints):
        folders["rltf.episode_log.dir"] = Path(log).absolute()
    for key, folder in folders.items():
        _lock(key, folder)


def _lock(key: str, folder: Path) -> None:
    try:
        FolderLock(folder).acquire()
    except FolderInUseError as error:
        raise ConfigError(f"{key}={error}") from None
    except OSError as error:
        logger.warning("%s=%s: not locked against a second run (%s)", key, folder, error)


def report_end(config: DictConfig) -> None:
    """Name in one line what ends the run: a signal, a dead process, an error.

    verl's driver waits in `ray.get` for the trainer. It is patched, because Hydra catches what
    leaves it, and because Ray's own handler of SIGTERM, set in `ray.init`, aborts the process with
    a stack of C++.
    """
    wait, received = ray.get, list[int]()

    @functools.wraps(wait)
    def get(*args: Any, **options: Any) -> Any:
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, end)
        try:
            return wait(*args, **options)
        except BaseException as error:
            if received:  # Ray makes a KeyboardInterrupt of what a handler raises
                raise SystemExit(128 + received[0]) from None
            line = f"{cause_of(error)}; {how_to_resume(config)}"
            atexit.register(_show_last, line)  # after the traceback, which Hydra prints
            raise

    def end(number: int, _frame: object) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)  # once is enough
        _show(f"ended by {signal.Signals(number).name}; {how_to_resume(config)}")
        received.append(number)
        raise SystemExit(128 + number)

    ray.get = get


def cause_of(error: BaseException) -> str:
    """The processes that died, else the error itself, in one line."""
    dead = " and ".join(dead_processes())
    if dead:
        return (
            f"died: {dead}; if the kernel or Ray killed it for memory, lower data.train_batch_size"
            " or actor_rollout_ref.rollout.agent.num_workers"
        )
    cause = getattr(error, "cause", None) or error
    lines = str(cause).strip().splitlines() or [""]
    return f"failed: {type(cause).__name__}: {lines[-1].strip()}"


def dead_processes() -> list[str]:
    """Class and process of the run's actors that died, not those that were ended with them."""
    from ray._private import state  # the public `ray.util.state` needs Ray's dashboard

    with suppress(Exception):  # Ray itself is gone, or has moved it
        job = ray.JobID.from_hex(ray.get_runtime_context().get_job_id())
        actors = state.actors(job_id=job, actor_state_name="DEAD").values()
        return [
            f"{actor['ActorClassName'].rpartition('.')[2]} (pid {actor['Pid']})"
            for actor in actors
            if _DIED.search(str(actor["DeathCause"]))
        ]
    return []


def how_to_resume(config: DictConfig) -> str:
    """The fix, for the last line."""
    latest = Path(config.trainer.default_local_dir) / LATEST
    try:
        step = int(latest.read_text("utf-8"))
    except (OSError, ValueError):
        return "run the same command again; there is no checkpoint yet, so it starts from step 0"
    mode = "" if config.trainer.resume_mode == "auto" else " with trainer.resume_mode=auto"
    return f"run the same command again{mode} to resume from step {step}"


def _show_last(line: str) -> None:
    ray.shutdown()  # prints what workers wrote
    _show(line)


def _show(line: str) -> None:
    print(f"{MARK}{line}", file=sys.stderr, flush=True)
