"""Runs on this machine: what the back ends that start a process of their own have in common."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from rltf_verl.envs.calls import DEADLINE_S
from rltf_verl.envs.sandbox.base import (
    Outcome,
    Program,
    Resources,
    SandboxError,
    SandboxUnreachableError,
)
from rltf_verl.envs.sandbox.channel import Channel, ChannelClosed, ChannelFull
from rltf_verl.envs.sandbox.reports import outcome_of

INSIDE = Path(__file__).with_name("inside.py").read_text("utf-8")
START_S = 30.0
"""Seconds that a start may take on a busy machine."""
GRACE_S = 5.0
"""Seconds after which a test that should have been ended from inside is ended from outside."""

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",  # the same program prints the same set in the same order
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""All that a program sees of the environment, beside its folder."""

PROBE = """
import os, time
count = 0
try:
    while count < {most}:
        if os.fork() == 0:
            time.sleep(60)
        count += 1
except OSError:
    pass
print(count)
"""
"""Counts how many processes a program can start."""


@cache
def slots(num: int) -> BoundedSemaphore:
    """Bound of the executions at once in this process; shared by all environments with the same
    bound.
    """
    return BoundedSemaphore(num)


@contextmanager
def held(slot: BoundedSemaphore, limits: Resources) -> Iterator[None]:
    """Raises SandboxUnreachableError: none was free for so long that what is left of a grader's
    call might not do for a start and all tests. Past the call's deadline an answer counts as wrong.
    """
    seconds = max(DEADLINE_S - 2 * START_S - limits.total_s, 0.0)
    if not slot.acquire(timeout=seconds):
        raise SandboxUnreachableError(
            f"no sandbox was free within {seconds:g} s; raise rltf.env.max_parallel, or lower"
            " rltf.env.time_s and rltf.env.total_s"
        )
    try:
        yield
    finally:
        slot.release()


@dataclass(frozen=True, slots=True)
class Started:
    """A process that serves tests on its standard input and output."""

    process: subprocess.Popen[bytes]
    kill: Callable[[], None]
    """End it and all that it has started, now."""
    stdin: int
    """A file in memory, under its number there: the program's standard input. Made here, since a
    program that can make such files has memory that no limit counts."""
    alone: bool
    """It can signal nothing but what it has started."""
    uid: int | None = None
    """The user that it shall become."""


class LocalRun:
    """One program, served by a started process."""

    def __init__(self, program: Program, limits: Resources, started: Started) -> None:
        self._limits, self._started, self._entry = limits, started, program.entry
        stdin, stdout = started.process.stdin, started.process.stdout
        assert stdin is not None
        assert stdout is not None
        # Escaped as JSON in a string in JSON, a character takes up to 13 bytes.
        self._channel = Channel(
            stdin.fileno(), stdout.fileno(), 2**16 + 26 * 1024 * limits.output_kb
        )
        self._deadline = time.monotonic() + START_S
        self._ended: Outcome | None = None
        box = {"alone": started.alone, "uid": started.uid, "stdin": started.stdin}
        job = {**box, "limits": asdict(limits), **asdict(program)}
        try:
            self._channel.send(json.dumps(job).encode(), self._deadline)
            self._channel.receive(self._deadline)
        except (ChannelClosed, ChannelFull, TimeoutError) as error:
            raise SandboxError(
                f"the sandbox does not start: {self._last_words() or type(error).__name__}"
            ) from error
        self._deadline = time.monotonic() + limits.total_s

    def call(self, given: Any) -> Outcome:
        """Run one test; when the run is over (out of time, taken down from inside) all further
        tests end like that.
        """
        if self._ended is None:
            deadline = min(self._deadline, time.monotonic() + 2 * self._limits.time_s + GRACE_S)
            try:
                self._channel.send(json.dumps(given).encode(), deadline)
                return outcome_of(self._channel.receive(deadline), self._entry)
            except TimeoutError:
                self._ended = Outcome("timeout")
            except ChannelClosed:
                self._ended = Outcome(
                    "crash", message="the program ended the process that was to run it"
                )
            except ChannelFull:
                self._ended = Outcome("output")
        return self._ended

    def _last_words(self) -> str:
        self._started.kill()
        assert self._started.process.stderr is not None
        return " ".join(self._started.process.stderr.read(2000).decode("utf-8", "replace").split())


class LocalSandbox:
    """A back end that starts a process per run. Subclasses say how.

    Args:
        limits: what one answer may use.
        max_parallel: runs at once in this process; others wait.
        python: interpreter that runs the programs; None: the one that runs this, outside of its
            virtual environment.
    """

    bounds_processes = True

    def __init__(self, limits: Resources, max_parallel: int, python: str | None = None) -> None:
        self._limits, self._slots = limits, slots(max_parallel)
        self._python = python or str(getattr(sys, "_base_executable", sys.executable))

    def trouble(self) -> str | None:
        """Try it out: a program that starts processes until it is stopped."""
        most = self._limits.processes + 4
        try:
            with self.start(Program(PROBE.format(most=most))) as run:
                outcome = run.call("")
        except (SandboxError, OSError) as error:
            return str(error)
        if outcome.ending != "ok" or not outcome.output.strip().isdigit():
            why = f"{outcome.ending} {outcome.message}".strip()
            return f"the sandbox does not run a simple program: {why}"
        count = int(outcome.output)
        if self.bounds_processes and not 0 < count < most:
            return (
                f"the sandbox cannot limit processes (a program could start {count}): use Linux"
                " 5.14 or later, and as root in a container give it CAP_SYS_ADMIN or start as"
                " another user"
            )
        return None

    @contextmanager
    def start(self, program: Program) -> Iterator[LocalRun]:
        """See `Sandbox.start`."""
        with held(self._slots, self._limits), self._started() as started:
            yield LocalRun(program, self._limits, started)

    def _started(self) -> AbstractContextManager[Started]:
        raise NotImplementedError

    def _command(self) -> list[str]:
        """Command that runs the text of `inside`."""
        # -s: no packages of the user's own folder; utf8, whatever the locale
        return [self._python, "-s", "-X", "utf8", "-c", f"{INSIDE}\nserve()"]


@contextmanager
def input_file() -> Iterator[int]:
    """A file in memory for `Started.stdin`, to be passed on."""
    fd = os.memfd_create("stdin")
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def ended(started: Started) -> Iterator[Started]:
    """At the end nothing of it is alive and its pipes are closed."""
    process = started.process
    try:
        yield started
    finally:
        started.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
