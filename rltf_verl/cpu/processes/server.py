"""The fork server: a process with verl imported that becomes Ray's workers by `fork`.

Ray starts some ten Python processes for a run, one after the other, and each imports torch and verl
for five seconds. A fork has them at once and shares their memory. Ray asks through its own option
`runtime_env.py_executable`, which names `worker.py`; that one waits for the fork, so Ray sees a
process that lives as long as the worker.

A fork is safe where no other thread holds a lock, and where forks do not draw the same ids for
Ray's tasks: the server has one thread, and tries two draws. A worker ends with the server, the
server with the driver.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import random
import runpy
import selectors
import shlex
import signal
import socket
import struct
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from rltf_verl.stuck import run_and_end

FIRST = ("torch", "tensordict", "transformers.models.auto", "transformers.modeling_utils")
"""Imported while Ray starts. Not Ray: it reads the variables that it gives a worker when it is
imported, and never again, so it has to wait for the first worker.
"""

MODULES = (
    "verl.trainer.ppo.v1",
    "verl.workers.engine_workers",
    "verl.experimental.reward_loop",
    "rltf_verl.adapters.rollout.agent_worker",
    "rltf_verl.sampler.server",
    "rltf_verl.sampler.adapter",
)
"""Modules that the workers of a run import."""

OF_RAY = ("RAY_JOB_ID", "RAY_RAYLET_PID")
"""Read when Ray is imported, so they have to be the same in every fork."""

HARMLESS_THREADS = {"jemalloc_bg_thd"}
"""pyarrow's; jemalloc stops and starts it around a fork."""

THREADS_AT_IMPORT = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""With more than one, numpy's OpenBLAS starts threads when it is imported, and a process with
threads is not forked. A fork sets torch's number to its own.
"""

GRACE_S = 5.0
"""Between the polite and the other signal to a worker that Ray gave up."""

PR_SET_PDEATHSIG = 1


def start() -> str:
    """Start the server; the command that Ray is to use as Python.

    Raises:
        OSError: no such sockets here.
    """
    name = f"rltf-{uuid4().hex}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        # An abstract socket: its name is no file, and ends with the last process that has it.
        listener.bind(f"\0{name}")
        listener.listen(64)
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(listener.fileno()), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            env={**os.environ, **dict.fromkeys(THREADS_AT_IMPORT, "1")},
            start_new_session=True,  # Ctrl-C is for the driver, which ends Ray in order
        )
    worker = str(Path(__file__).with_name("worker.py"))
    return shlex.join([sys.executable, "-I", "-S", worker, name])  # Ray hands it to a shell


@dataclass(frozen=True)
class ForkRequest:
    """The program that a worker runs."""

    arguments: list[str]
    cwd: str
    environment: dict[str, str]


@dataclass
class _Worker:
    """A fork, and the process that Ray knows in its place."""

    pid: int
    asked: socket.socket
    given_up: float | None = None
    """Time when Ray ended the process that asked."""


class Server:
    """Answers `worker.py`, one fork each.

    Args:
        listener: the socket.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._workers: dict[int, _Worker] = {}
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()

    def run(self) -> ForkRequest:
        """Serve for ever. Returns in each fork, with what it is to run."""
        for end in (self._wake, self._woken):
            end.setblocking(False)
        # Self-pipe: the handler does nothing, but the byte that Python writes for it ends `select`.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select(1.0):
                request = self._handle(key.fileobj)
                if request is not None:
                    return request
            self._reap()
            self._end_given_up()

    def _handle(self, source: Any) -> ForkRequest | None:
        """A request, in the fork that it was made for."""
        if source is self._listener:
            return self._answer(self._listener.accept()[0])
        if source is self._woken:
            with suppress(BlockingIOError):
                self._woken.recv(4096)
        else:  # nothing is ever sent: the other end is gone
            self._selector.unregister(source)
            worker = next(w for w in self._workers.values() if w.asked is source)
            worker.given_up = time.monotonic()
            _kill(worker.pid, signal.SIGTERM)
        return None

    def _answer(self, asked: socket.socket) -> ForkRequest | None:
        streams: list[int] = []
        try:
            request, streams = receive(asked)
            prepare(request)
            pid = os.fork() if may_fork() else None
        except (OSError, ValueError):
            pid = None
        if pid == 0:
            self._leave(streams, asked)
            return request
        for stream in streams:
            os.close(stream)
        if pid is None:  # it then starts as if there were no server
            asked.close()
            return None
        self._workers[pid] = _Worker(pid, asked)
        self._selector.register(asked, selectors.EVENT_READ)
        with suppress(OSError):
            asked.send(b"+")
        return None

    def _leave(self, streams: list[int], asked: socket.socket) -> None:
        """In a fork: give up what belongs to the server."""
        os.setpgid(0, 0)  # as Ray's own workers: with one of them it ends all of its group
        end_with(os.getppid())
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        others = [worker.asked for worker in self._workers.values()]
        for own in (self._listener, self._wake, self._woken, asked, *others):
            own.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)

    def _reap(self) -> None:
        while self._workers:
            pid, state = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            worker = self._workers.pop(pid)
            if worker.given_up is None:
                self._selector.unregister(worker.asked)
                with suppress(OSError):
                    # One byte: an end by a signal is negative, so −9 is sent as 247.
                    worker.asked.send(bytes([os.waitstatus_to_exitcode(state) % 256]))
            worker.asked.close()

    def _end_given_up(self) -> None:
        now = time.monotonic()
        for worker in self._workers.values():
            if worker.given_up is not None and now - worker.given_up > GRACE_S:
                _kill(worker.pid, signal.SIGKILL)


def receive(asked: socket.socket) -> tuple[ForkRequest, list[int]]:
    """The request of `worker.py`, and its standard streams.

    Raises:
        OSError: another user's, or the other end closed.
        ValueError: invalid request.
    """
    credentials = asked.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    # (pid, uid, gid) of the process at the other end, by the kernel.
    if struct.unpack("3i", credentials)[1] != os.getuid():
        raise PermissionError("another user's")
    # Four bytes, the size of the request, and with them the three standard streams.
    head, streams, _, _ = socket.recv_fds(asked, 4, 3)
    if len(head) < 4:
        raise OSError("the other end closed")
    size, data = struct.unpack("!I", head)[0], b""
    while len(data) < size:
        part = asked.recv(size - len(data))
        if not part:
            raise OSError("the other end closed")
        data += part
    return ForkRequest(**json.loads(data)), streams


def prepare(request: ForkRequest) -> None:
    """Import, with the first worker's environment, what all workers import.

    Raises:
        ValueError: this worker is another job's.
    """
    if "ray" not in sys.modules:
        os.environ.clear()
        os.environ.update(request.environment)
        _import_modules()
        gc.collect()
        gc.freeze()  # a collection in a fork would copy what it looks at
    elif any(os.environ.get(name) != request.environment.get(name) for name in OF_RAY):
        raise ValueError("another job's")


def _import_modules() -> None:
    """Without a draw of Ray's random numbers: they have a seed from the first one on, which forks
    would share. Declaring an actor's class draws one.
    """
    actors: Any = importlib.import_module("ray.actor")
    drawing, actors.ActorClassID = actors.ActorClassID, _ActorClassID
    # verl's engines, of which a CPU needs one; the filter leaves other warnings to the workers
    warnings.filterwarnings("ignore", r"\w+ engine is not available")
    try:
        for module in MODULES:
            with suppress(ImportError):
                importlib.import_module(module)
    finally:
        actors.ActorClassID = drawing


class _ActorClassID:
    @staticmethod
    def from_random() -> Any:
        from ray import ActorClassID

        return ActorClassID(os.urandom(ActorClassID.size()))


def may_fork() -> bool:
    """True if this process has one thread only, so that a fork can hold no lock of another, and
    forks draw ids of their own.
    """
    names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    return len([name for name in names if name not in HARMLESS_THREADS]) == 1 and _draw_apart()


@cache
def _draw_apart() -> bool:
    return _drawn_in_a_fork() != _drawn_in_a_fork()


def _drawn_in_a_fork() -> bytes:
    """Ray's next random id. Ray ends a process that runs two tasks of one id."""
    from ray import UniqueID

    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, UniqueID.from_random().binary())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        drawn = pipe.read()
    os.waitpid(pid, 0)
    return drawn


def become(request: ForkRequest) -> NoReturn:
    """In a fork: run the script as a new interpreter would."""
    import numpy as np
    import torch

    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.cwd)
    places = request.environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [place for place in places if place and place not in sys.path]
    sys.argv[:] = request.arguments
    random.seed()  # forks of one process would all draw the same
    np.random.seed()
    threads = request.environment.get("OMP_NUM_THREADS", "")
    if threads.isdigit() and int(threads) > 0:  # torch read it in the server
        torch.set_num_threads(int(threads))
    # The end that `multiprocessing` gives its forks, and what is registered for an exit: taking the
    # interpreter apart would touch, and so copy, all of the shared memory.
    run_and_end(partial(runpy.run_path, request.arguments[0], run_name="__main__"), joins=True)


def end_with(parent: int) -> None:
    """Let the kernel end this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have ended before the call above, which then waits for the new parent's end.
    if os.getppid() != parent:
        os._exit(1)


def _kill(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def main(listener: str, driver: str) -> None:
    """Serve on an inherited socket as long as the driver lives."""
    end_with(int(driver))
    for module in FIRST:
        with suppress(ImportError):
            importlib.import_module(module)
    become(Server(socket.socket(fileno=int(listener))).run())


if __name__ == "__main__":
    main(*sys.argv[1:])
