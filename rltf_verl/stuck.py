"""The end of a process that user code would hold up."""

from __future__ import annotations

import atexit
import faulthandler
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

EXIT_S = 0.5
"""Seconds for what is registered for the exit of a process."""


def run_and_end(main: Callable[[], object], *, joins: bool = False) -> NoReturn:
    """Run a program, then end the process with its exit code, see `end_process`."""
    code: object = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    end_process(code, joins=joins)


def end_process(code: object, *, joins: bool = False) -> NoReturn:
    """Exit like `sys.exit`, but wait for threads only if it `joins` them. Python joins those of an
    executor, and a user's grader may have left one that never ends, or one that waits in `input`.
    """
    if joins:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    # in a thread: one of them may wait for a process of the grader
    exits = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
    exits.start()
    exits.join(EXIT_S)
    for child in multiprocessing.active_children():
        child.kill()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code or 0)


@contextmanager
def ended_if_stuck(seconds: float) -> Iterator[None]:
    """Around calls of user code. A regular expression that backtracks lets no other thread run, so
    that no deadline can end it: after these seconds the process shows its stack, and ends.

    One at a time in a process, as faulthandler has one timer.
    """
    is_over = threading.Event()

    def set_timer() -> None:
        # The timer's own thread needs no interpreter. Ray shows what is written to 2.
        faulthandler.dump_traceback_later(seconds, exit=True, file=2)

    def postpone() -> None:
        while not is_over.wait(seconds / 10):
            set_timer()

    set_timer()  # here: the thread may never run
    thread = threading.Thread(target=postpone, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        faulthandler.cancel_dump_traceback_later()
