"""The sandbox interface: it runs an untrusted program on one test after the other and reports the
results.

Expected outputs never enter a sandbox. A program that takes over everything inside can only claim
outputs, and to claim the right ones it has to know them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Ending = Literal["ok", "syntax", "error", "timeout", "memory", "output", "crash"]
"""End of a test: by itself; the program does not parse; an exception; out of time; out of memory;
too much output; killed, or exited without output."""


@dataclass(frozen=True, slots=True)
class Program:
    """Python source, and what of it is run."""

    source: str
    entry: str | None = None
    """Function, or method of a class `Solution`, that is called with a test's arguments; None: a
    program that reads standard input and prints."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits of one answer."""

    time_s: int = 6
    """CPU seconds of a test; on the clock it may take twice as long."""
    total_s: int = 60
    """Seconds on the clock for all tests of an answer."""
    memory_mb: int = 1024
    """Address space of each process. Nothing bounds their sum but `processes`, and files in memory
    come on top.
    """
    processes: int = 8
    """Processes and threads at the same time."""
    output_kb: int = 1024
    """Printed output, or returned value, of a test."""
    file_mb: int = 16
    """Size of a file, and of everything in the scratch folder where the back end can bound that."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one test."""

    ending: Ending
    output: str = ""
    """The printed text or, with an entry, the returned value as JSON. Written by the program: trust
    nothing in it.
    """
    message: str = ""
    """The exception in one line, or what ended the program."""
    line: int | None = None
    """1-based line of the program where that happened, if known."""


class SandboxError(RuntimeError):
    """The sandbox itself failed; nothing is known about the program."""


class SandboxUnreachableError(SandboxError):
    """It does not answer, whatever the program."""


class ProgramRun(Protocol):
    """One program in one sandbox."""

    def call(self, given: Any) -> Outcome:
        """Run the program once: `given` is its standard input, or the list of its entry's
        arguments.

        Raises:
            SandboxError: the sandbox failed, not the program.
        """
        ...


class Sandbox(Protocol):
    """A way to run programs. Safe to share between threads."""

    def trouble(self) -> str | None:
        """Why it cannot run on this machine and what to do, in one line; None if it can."""
        ...

    def start(self, program: Program) -> AbstractContextManager[ProgramRun]:
        """A run; when the context ends, no process and no file of it is left. Waits while too many
        are in use.

        Raises:
            SandboxError: it does not start.
        """
        ...
