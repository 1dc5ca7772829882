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
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import ray
from filelock import LeaseSettingsMismatch, SoftFileLease, Timeout
from omegaconf import DictConfig

from rltf_verl.adapters.console import MARK, quiet_streams
from rltf_verl.adapters.startup.stamp import finished, write_config
from rltf_verl.findings import ConfigError, Finding
from rltf_verl.runlog.files import LATEST
from rltf_verl.stuck import end_process

logger = logging.getLogger(__name__)

CHECKPOINTS = "trainer.default_local_dir"
LOCK = "rltf.lock"
LEASE_S, BEAT_S = 120.0, 5.0
"""Seconds of silence after which a run of another host is dead; seconds between signs of life."""

ENDING: dict[int, str] = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}

_DIED = re.compile("WORKER_DIED|NODE_DIED|oom_context")
"""In Ray's cause of an actor's death: not `RAY_KILL`, `OWNER_DIED`, `REF_DELETED`."""


def begin_run(config: DictConfig) -> None:
    """After the checks, before Ray starts. A finished run ends here.

    Raises:
        ConfigError: another run uses the folder.
    """
    if (done := finished(config)) is not None:
        _show(done)
        end_process(0)
    lock_folders(config)
    with suppress(OSError):  # the lock has warned of it
        write_config(config)
    quiet_streams()
    main: Any = sys.modules["__main__"]
    if hasattr(main, "TaskRunnerV1"):  # it prints the config, a thousand lines, from Ray's worker
        main.pprint = lambda *_: None
    report_end(config)


def lock_folders(config: DictConfig) -> None:
    """Keep other runs away from the checkpoints and the episode log."""
    checkpoints = Path(config.trainer.default_local_dir).absolute()
    _lock(CHECKPOINTS, checkpoints)
    log = config.rltf.episode_log.dir
    if log and not Path(log).absolute().is_relative_to(checkpoints):
        _lock("rltf.episode_log.dir", Path(log).absolute())


def _lock(key: str, folder: Path) -> None:
    """Lock the folder until the process ends. A dead run's lock is taken, at once on this host.
    Raises ConfigError if a live run has it.
    """
    path = folder / LOCK
    lock = SoftFileLease(
        path,
        lease_duration=LEASE_S,
        heartbeat_interval=BEAT_S,
        on_compromise=lambda _: logger.warning(
            "%s=%s: another run may have taken this folder over; stop one of the two", key, folder
        ),
    )
    _delete_empty(path)
    seen = _beat(path)
    if seen is not None:
        logger.info("%s: its run is dead if it is silent for %.0f s; waiting", path, LEASE_S)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A new sign of life while this one waits: the owner is alive, and no waiting helps.
        lock.acquire(LEASE_S + BEAT_S, cancel_check=lambda: _beat(path) != seen)
    except (Timeout, LeaseSettingsMismatch):
        owner = lock.owner
        who = f"process {owner.pid} on {owner.hostname.partition('?')[0]}" if owner else "a process"
        raise ConfigError(
            Finding(
                key,
                str(folder),
                f"{who} trains in this folder",
                f"wait for it, stop it, or set another folder; if no run is alive, delete {path}",
            )
        ) from None
    except OSError as error:
        logger.warning("%s=%s: not locked against a second run (%s)", key, folder, error)
    atexit.register(lock.release)


def _delete_empty(lock: Path) -> None:
    """Delete a lock that a crash emptied: filelock would wait for it for ever. A live run touches
    its own.
    """
    with suppress(OSError):
        found = lock.lstat()
        if not found.st_size and time.time() - found.st_mtime > 2 * BEAT_S:
            lock.unlink()


def _beat(lock: Path) -> float | None:
    """The last sign of life of the run that has the lock; None without one."""
    with suppress(OSError):
        return lock.lstat().st_mtime
    return None


def report_end(config: DictConfig) -> None:
    """Name in one line what ends the run: a signal, a dead process, an error; and where Ray writes
    what its processes print.

    verl's driver starts Ray and waits in `ray.get` for the trainer. Both are patched, because Hydra
    catches what leaves them, and because Ray's own handler of SIGTERM, set in `ray.init`, aborts
    the process with a stack of C++.
    """
    start, received = ray.init, list[int]()

    def end(number: int, _frame: object) -> NoReturn:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)  # once is enough
        received.append(number)
        raise SystemExit(128 + number)

    def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def guard(*args: Any, **options: Any) -> Any:
            with suppress(ValueError):  # not the main thread
                for each in ENDING:
                    signal.signal(each, end)
            try:
                result = call(*args, **options)
            except BaseException as error:
                if received:  # Ray makes a KeyboardInterrupt of what a handler raises
                    ray.shutdown()  # before the last step is read: the trainer saves no other then
                    _show(f"stopped by {ENDING[received[0]]}; {how_to_resume(config)}")
                    raise SystemExit(128 + received[0]) from None
                if call is start:
                    raise SystemExit(
                        f"{MARK}Ray did not start: {' '.join(str(error).split())}"
                    ) from None
                line = f"{cause_of(error)}; {how_to_resume(config)}"
                atexit.register(_show_last, line)  # after the traceback, which Hydra prints
                raise
            if call is start and (address := getattr(result, "address_info", None)):
                _show(f"everything that the run's processes print: {address['session_dir']}/logs")
            return result

        return guard

    ray.init, ray.get = guarded(ray.init), guarded(ray.get)


def cause_of(error: BaseException) -> str:
    """The processes that died, else the error itself, in one line."""
    dead = " and ".join(dead_processes())
    if dead:
        return (
            f"died: {dead}; if the kernel or Ray killed it for memory, lower"
            " actor_rollout_ref.actor.ppo_max_token_len_per_gpu, then data.train_batch_size or"
            " actor_rollout_ref.rollout.agent.num_workers"
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
