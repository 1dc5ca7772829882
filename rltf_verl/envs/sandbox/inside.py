"""The program inside a sandbox. `python -c` runs its text there: standard library only, nothing of
ours.

`serve` reads tests from its standard input, forks a process with limits for each and writes back
what came out. Nothing that a program could steal or forge in here is worth anything: see `base`.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import select
import signal
import sys
import threading
import time
import types
from contextlib import suppress
from typing import Any

ANSWER = "<answer>"
MESSAGE_CHARS = 1000
SAY = 3
"""File descriptor on which the process of a test reports what its exit status cannot tell."""
NUM_FDS = 64
POLL_S = 0.05

PREAMBLE = """
import bisect, collections, copy, functools, heapq, itertools, math, operator, random, re
import string, sys
from bisect import *
from collections import *
from copy import *
from functools import *
from heapq import *
from itertools import *
from math import *
from string import *
from typing import *
from builtins import *
sys.setrecursionlimit(50000)
"""
"""Names that solutions of function problems take for granted, as the sites of these problems have
them; `pow` is the builtin, not that of `math`.
"""


def report_of(source: str, entry: str | None, given: Any) -> dict[str, Any]:
    """Run a program here and now: `ending`, with `value`, `message` and `line` where there are
    any.
    """
    try:
        code = compile(source, ANSWER, "exec", dont_inherit=True)
    except BaseException as error:  # a hostile text gets more than SyntaxErrors out of the compiler
        return _failed(error, "syntax")
    # A function is imported: code behind its file's `__main__` guard reads other input.
    name = "__main__" if entry is None else "answer"
    module = sys.modules[name] = types.ModuleType(name)
    failed: list[BaseException] = []
    # An exception in another thread fails the test too.
    threading.excepthook = lambda args: failed.append(
        args.exc_value or RuntimeError(args.exc_type.__name__)
    )
    report = {"ending": "ok"}
    try:
        if entry is None:
            exec(code, module.__dict__)  # noqa: S102
        else:
            report["value"] = _value(code, entry, given, module)
    except SystemExit as error:
        if entry is not None:
            return _failed(error, "error")
    except BaseException as error:  # whatever it is, it is a result
        return _failed(error, "error")
    finally:
        _finish()
    return _failed(failed[0], "error") if failed else report


def _value(code: types.CodeType, entry: str, given: Any, module: types.ModuleType) -> str:
    names = module.__dict__
    exec(PREAMBLE, names)  # noqa: S102
    known = names.get(entry)
    exec(code, names)  # noqa: S102
    # The preamble's names, `math.factorial` or `heapq.merge`, are not the program's.
    if hasattr(names.get("Solution"), entry):
        target = getattr(names["Solution"](), entry)
    elif names.get(entry) is not known:
        target = names[entry]
    else:
        raise NameError(f"there is no function {entry!r}")
    return json.dumps(target(*given))


def _finish() -> None:
    """Do the interpreter's work at its end: other threads, exit functions, buffers."""
    threading._shutdown()  # type: ignore[attr-defined]  # also ends executors, whose threads wait
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.__stdout__):
        with suppress(Exception):  # a program may have put anything there
            stream.flush()  # type: ignore[union-attr]


def _failed(error: BaseException, ending: str) -> dict[str, Any]:
    if isinstance(error, MemoryError) and ending != "syntax":
        ending = "memory"
    try:
        message = (
            f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
        )
    except BaseException:  # __str__ is the program's own
        message = type(error).__name__
    return {"ending": ending, "message": message[:MESSAGE_CHARS], "line": _line(error)}


def _line(error: BaseException) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == ANSWER:
        return error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == ANSWER:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def tell(source: str, entry: str | None, mark: str) -> None:
    """Run a program on this process's standard input and print the report behind `mark`."""
    stdout, given = os.dup(1), None if entry is None else json.load(sys.stdin)
    report = report_of(source, entry, given)
    _write_all(stdout, f"{mark}{json.dumps(report)}".encode())


def serve() -> None:
    """Frames in: the job, then one test after the other. Frames out: an empty one when ready, then
    what came out.
    """
    job = json.loads(_read_frame() or b"{}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (NUM_FDS, NUM_FDS))
    _settle(job["alone"], job["uid"])
    _write_frame(b"{}")
    while (frame := _read_frame()) is not None:
        _write_frame(json.dumps(_test(job, json.loads(frame))).encode())


def _settle(alone: bool, uid: int | None) -> None:
    if uid is not None:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    if not alone:
        import ctypes

        # PR_SET_CHILD_SUBREAPER: orphans become ours, not init's
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def _read_frame() -> bytes | None:
    header = _read_exactly(4)
    return None if header is None else _read_exactly(int.from_bytes(header, "big"))


def _read_exactly(num: int) -> bytes | None:
    data = bytearray()
    while len(data) < num:
        chunk = os.read(0, num - len(data))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def _write_frame(data: bytes) -> None:
    _write_all(1, len(data).to_bytes(4, "big") + data)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _test(job: dict[str, Any], given: Any) -> dict[str, Any]:
    """One test in a process of its own; afterwards nothing else is alive."""
    stdin = job["stdin"]
    os.ftruncate(stdin, 0)
    os.lseek(stdin, 0, os.SEEK_SET)
    _write_all(stdin, given.encode("utf-8", "replace") if job["entry"] is None else b"")
    os.lseek(stdin, 0, os.SEEK_SET)
    out_read, out_write = os.pipe()
    say_read, say_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _child(job, given, (stdin, out_write, say_write))
        finally:
            os._exit(1)
    os.close(out_write)
    os.close(say_write)
    try:
        return _collect(job, pid, out_read, say_read)
    finally:
        os.close(out_read)
        os.close(say_read)


def _child(job: dict[str, Any], given: Any, fds: tuple[int, int, int]) -> None:
    os.setsid()
    nothing = os.open("/dev/null", os.O_WRONLY)
    # First to numbers that are clear of those that they shall get.
    stdin, out, say = (os.dup2(fd, 60 + k) for k, fd in enumerate(fds))
    for target, fd in ((0, stdin), (1, out), (2, nothing), (SAY, say)):
        os.dup2(fd, target)
    os.closerange(SAY + 1, max(NUM_FDS, job["stdin"] + 1))
    _limit(job["limits"], job["alone"])
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    report = report_of(job["source"], job["entry"], given)
    _write_all(SAY, json.dumps(report).encode())
    os._exit(0)


def _limit(limits: dict[str, int], alone: bool) -> None:
    mega = 2**20
    for kind, soft, hard in (
        # SIGXCPU at the first of the two, SIGKILL a second later.
        (resource.RLIMIT_CPU, limits["time_s"], limits["time_s"] + 1),
        (resource.RLIMIT_AS, limits["memory_mb"] * mega, limits["memory_mb"] * mega),
        (resource.RLIMIT_FSIZE, limits["file_mb"] * mega, limits["file_mb"] * mega),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        resource.setrlimit(kind, (soft, hard))
    if alone:  # elsewhere everything else that this user runs would count
        # Next to the test's there are this server and the sandbox's first process.
        most = limits["processes"] + 2
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _collect(job: dict[str, Any], pid: int, out: int, say: int) -> dict[str, Any]:
    read, limits = {out: bytearray(), say: bytearray()}, job["limits"]
    most, deadline = limits["output_kb"] * 1024, time.monotonic() + 2 * limits["time_s"]
    trouble, status, cpu_s = _watch(pid, read, most, deadline)
    _end_all(job["alone"], pid)
    ending, message = (
        (trouble, "") if trouble else _by_status(status or 0, cpu_s >= limits["time_s"])
    )
    output, report = (data[:most].decode("utf-8", "replace") for data in (read[out], read[say]))
    return {"ending": ending, "message": message, "output": output, "report": report}


def _watch(
    pid: int, read: dict[int, bytearray], most: int, deadline: float
) -> tuple[str, int | None, float]:
    """Read until the process has ended: what was wrong (empty: nothing), its wait status and its
    CPU seconds.
    """
    live, status, cpu_s = set(read), None, 0.0
    while live or status is None:
        if status is None:
            reaped, found, usage = os.wait4(pid, os.WNOHANG)
            if reaped:
                status, cpu_s = found, usage.ru_utime + usage.ru_stime
        if time.monotonic() > deadline:
            return "timeout", status, cpu_s
        if not live:
            time.sleep(0.001)
            continue
        ready = select.select(list(live), [], [], 0 if status is not None else POLL_S)[0]
        if status is not None and not ready:  # its children may keep the pipes open for ever
            break
        for fd in ready:
            chunk = os.read(fd, 65536)
            read[fd] += chunk
            if not chunk:
                live.discard(fd)
            if len(read[fd]) > most:
                return "output", status, cpu_s
    return "", status, cpu_s


def _by_status(status: int, used_up: bool) -> tuple[str, str]:
    if os.WIFEXITED(status):
        code = os.WEXITSTATUS(status)
        return (
            ("ended", "") if code == 0 else ("crash", f"the process ended with exit status {code}")
        )
    number = os.WTERMSIG(status)
    # A program can catch SIGXCPU; then the hard limit kills it.
    if number == signal.SIGXCPU or (number == signal.SIGKILL and used_up):
        return "timeout", ""
    try:
        return "crash", f"the process was ended by {signal.Signals(number).name}"
    except ValueError:
        return "crash", f"the process was ended by signal {number}"


def _end_all(alone: bool, pid: int) -> None:
    """End what the test has left running. `alone`: whatever this process may signal belongs to the
    test.
    """
    with suppress(ProcessLookupError, PermissionError):
        if alone:
            os.kill(-1, signal.SIGKILL)
        else:
            os.killpg(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
