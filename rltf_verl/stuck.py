"""The end of a process that can never go on by itself."""

from __future__ import annotations

import faulthandler
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_if_stuck(seconds: float) -> Iterator[None]:
    """Around calls of user code. A regular expression that backtracks lets no other thread run, so
    that no deadline can end it: after these seconds the process shows where it stands, and ends.

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
