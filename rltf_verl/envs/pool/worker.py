"""The other end of `pool`: one process, one module, one call after the other.

It ends by itself when its parent does: idle, because the pipe ends or the parent is another; busy,
because the kernel sends SIGALRM soon after the deadline, which no computation can put off.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any, NoReturn

from rltf_verl.texts import split_words

GRACE_S = 2.0
"""Seconds after the deadline at which an orphan ends; a parent that lives has killed it at the
deadline.
"""
LOOK_S = 5.0
"""Seconds between two looks for the parent while idle."""
MEMORY_BYTES = 4 << 30
"""Data that a call may allocate; beyond it MemoryError."""
MAX_ERROR = 300
"""Characters of an error message that are kept."""

_DENIED = split_words(
    "os.system os.exec os.fork os.posix_spawn os.spawn subprocess. pty. socket. shutil. "
    "os.remove os.rename os.rmdir os.mkdir os.link os.symlink os.chmod os.chown os.kill "
    "os.putenv os.truncate ctypes."
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def main(fd: int, module_name: str) -> NoReturn:
    """Import the module, say so, and serve calls that arrive on the socket `fd` until the other end
    is closed.
    """
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    connection = Connection(fd)
    try:
        module = importlib.import_module(module_name)
    except BaseException as error:
        _send(connection, None, _error_line(error))
        os._exit(1)
    _confine()
    gc.freeze()
    _send(connection, None, None)
    with suppress(EOFError, OSError):
        while True:
            if connection.poll(LOOK_S):
                _serve(connection, module)
            elif os.getppid() != parent:
                break
    os._exit(0)


def _serve(connection: Connection, module: ModuleType) -> None:
    function, arguments, deadline_s = json.loads(connection.recv_bytes())
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, deadline_s + GRACE_S)
    try:
        value, failure = getattr(module, function)(*arguments), None
    except BaseException as error:  # also MemoryError, RecursionError and the exit() of a library
        value, failure = None, _error_line(error)
    signal.setitimer(signal.ITIMER_REAL, 0)
    _send(connection, value, failure)


def _send(connection: Connection, value: Any, error: str | None) -> None:
    connection.send_bytes(json.dumps({"value": value, "error": error}).encode())


def _error_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:MAX_ERROR]


def _confine() -> None:
    """A bound for the memory, silence, and no way out for a parser that turns out to run what it
    reads.

    The last is a second lock and no sandbox: nothing here evaluates text that a model wrote in the
    first place.
    """
    with suppress(ValueError, OSError):  # not every platform knows it
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(silence, stream)
    sys.dont_write_bytecode = True
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    # The arguments of this event: path, mode, flags.
    writes = event == "open" and isinstance(flags := arguments[2], int) and flags & _WRITING
    if writes or event.startswith(_DENIED):
        raise PermissionError(f"{event} in a grader process")
