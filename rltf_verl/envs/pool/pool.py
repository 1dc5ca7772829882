"""Processes for graders that may hang, crash or eat the memory: a call past its deadline loses its
process.

Why not a library. `concurrent.futures` and `multiprocessing.Pool` cannot end a call. pebble can,
but its workers outlive a parent that is killed while they are busy, they hand results back as
pickles (here a worker reads text that a model wrote, so only JSON comes back), `spawn` runs the
user's main module again in each of them, and it is LGPL.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any

from rltf_verl.texts import split_words

START_S = 180.0
"""Longest that a worker may take to import its module."""

TRIAL_S = 60.0
"""Longest that a first call may take, which only shows whether calls work."""

# Arguments: the socket's number, the module, then this process's `sys.path`, so that the worker
# finds the same packages.
_BOOT = (
    "import sys; sys.path[:] = sys.argv[3:]; from rltf_verl.envs.pool.worker import main; "
    "main(int(sys.argv[1]), sys.argv[2])"
)
# Not the whole environment: the worker reads text that a model wrote, and has no use for keys and
# tokens.
_KEPT = split_words(
    "PATH HOME LANG LC_ALL TMPDIR LD_LIBRARY_PATH VIRTUAL_ENV PYTHONHOME SYSTEMROOT NLTK_DATA"
)

# Same results in every process: sets of text have an order of their own.
_FIXED = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


class CallFailed(Exception):  # noqa: N818  a verdict on the call, which the grader absorbs
    """The call gave no result; the message is one line. The pool continues."""


@dataclass(frozen=True, slots=True)
class _GraderProcess:
    process: subprocess.Popen[bytes]
    connection: Connection

    @classmethod
    def start(cls, module: str) -> _GraderProcess:
        """A process that has imported `module` and waits for calls."""
        ours, theirs = Pipe()
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, str(theirs.fileno()), module, *sys.path],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**{k: v for k, v in os.environ.items() if k in _KEPT}, **_FIXED},
            )
        worker = cls(process, ours)
        try:
            _value(worker._receive(START_S))
        except CallFailed as error:
            worker.end()
            raise CallFailed(f"no grader process: {error}") from None
        return worker

    def ask(self, function: str, arguments: Sequence[Any], deadline_s: float) -> dict[str, Any]:
        """Call one of the functions: `value`, or the `error` it raised. After CallFailed the worker
        is of no use.
        """
        try:
            self.connection.send_bytes(json.dumps([function, list(arguments), deadline_s]).encode())
        except OSError as error:
            raise CallFailed(f"the grader process is gone ({error})") from None
        return self._receive(deadline_s)

    def _receive(self, timeout_s: float) -> dict[str, Any]:
        try:
            if not self.connection.poll(timeout_s):
                raise CallFailed(f"no verdict within {timeout_s:g} s")
            reply: dict[str, Any] = json.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            raise CallFailed(f"the grader process died ({_exit(self.process.wait())})") from None
        return reply

    @property
    def usable(self) -> bool:
        """It runs."""
        return self.process.poll() is None

    def end(self) -> None:
        """Kill it, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        self.connection.close()


class Pool:
    """Up to `num_workers` processes that call functions of one module. Any thread may call; none is
    started before.

    Args:
        module: dotted name of the module; the functions take and return JSON values.
        num_workers: processes, so also calls at the same time; further calls wait for one.
    """

    def __init__(self, module: str, num_workers: int) -> None:
        self._module = module
        # Last in, first out: as few processes as there are calls at the same time.
        self._slots: queue.LifoQueue[_GraderProcess | None] = queue.LifoQueue()
        for _ in range(num_workers):
            self._slots.put(None)

    def call(self, function: str, *arguments: Any, deadline_s: float) -> Any:
        """`module.function(*arguments)`, in a worker.

        Args:
            function: its name.
            arguments: JSON values.
            deadline_s: seconds from the moment a worker is free; then it is killed, and the next
                call starts another.

        Raises:
            CallFailed: too late, or the function raised, or its process died.
        """
        worker, answered = self._slots.get(), None
        try:
            if worker is not None and not worker.usable:
                worker.end()
                worker = None
            worker = worker or _GraderProcess.start(self._module)
            try:
                reply = worker.ask(function, arguments, deadline_s)
            except BaseException:
                # A later answer must not be taken for the next call's.
                worker.end()
                raise
            answered = worker
        finally:
            self._slots.put(answered)
        return _value(reply)

    def close(self) -> None:
        """End the workers that are idle. A daemon thread may hold a busy one for ever: its end of
        the pipe closes with this process.
        """
        with suppress(queue.Empty):
            while True:
                if (worker := self._slots.get_nowait()) is not None:
                    worker.end()


_shared: dict[tuple[str, int], Pool] = {}
_lock = threading.Lock()


def shared_pool(module: str, num_workers: int) -> Pool:
    """The pool of this process for a module: environments with the same options share their
    workers.
    """
    with _lock:
        key = (module, num_workers)
        if key not in _shared:
            _shared[key] = Pool(module, num_workers)
        return _shared[key]


def _forget() -> None:
    """After a fork: the workers are the parent's, and its lock may have been held."""
    global _lock
    _lock = threading.Lock()
    _shared.clear()


def _close_all() -> None:
    for pool in _shared.values():
        pool.close()


def _value(reply: dict[str, Any]) -> Any:
    if reply["error"] is not None:
        raise CallFailed(reply["error"])
    return reply["value"]


def _exit(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


os.register_at_fork(after_in_child=_forget)
atexit.register(_close_all)
