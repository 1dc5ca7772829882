"""Ordinary programs, and the limits that each local back end promises."""

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.envs.sandbox import bubblewrap, local, make_sandbox
from rltf_verl.envs.sandbox.base import (
    Outcome,
    Program,
    Resources,
    SandboxError,
    SandboxUnreachableError,
)
from rltf_verl.envs.sandbox.channel import Channel, ChannelClosed, ChannelFull
from rltf_verl.envs.sandbox.reports import outcome_of, outcome_of_report
from tests.support.sandboxes import LIMITS, LOCAL, run_once, sandbox

ENDS = {
    "echo": ("print(input())", "né\n", None, Outcome("ok", output="né\n")),
    "file descriptor": (
        "print(sum(map(int, open(0).read().split())))",
        "1 2\n3",
        None,
        Outcome("ok", output="6\n"),
    ),
    "seekable input": (
        "import sys; sys.stdin.read(); sys.stdin.seek(0); print(sys.stdin.read())",
        "x",
        None,
        Outcome("ok", output="x\n"),
    ),
    "binary output": (
        "import sys; sys.stdout.buffer.write(b'a\\n')",
        "",
        None,
        Outcome("ok", output="a\n"),
    ),
    "main guard": ("if __name__ == '__main__': print(1)", "", None, Outcome("ok", output="1\n")),
    "exit": ("print(1); exit(0)", "", None, Outcome("ok", output="1\n")),
    "hard exit": (
        "import os; print(1, flush=True); os._exit(0)",
        "",
        None,
        Outcome("ok", output="1\n"),
    ),
    "thread that nobody joins": (
        "import threading, time\n"
        "threading.Thread(target=lambda: print(time.sleep(0.1))).start()\nprint(1)",
        "",
        None,
        Outcome("ok", output="1\nNone\n"),
    ),
    "executor that nobody shuts down": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "print(sum(ThreadPoolExecutor(2).map(int, input().split())))",
        "1 2",
        None,
        Outcome("ok", output="3\n"),
    ),
    "exit function": (
        "import atexit; atexit.register(print, 'end')",
        "",
        None,
        Outcome("ok", output="end\n"),
    ),
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nprint(A(1))",
        "",
        None,
        Outcome("ok", output="A(x=1)\n"),
    ),
    "pair of sockets": (
        "import socket\na, b = socket.socketpair()\na.send(b'x')\nprint(b.recv(1))",
        "",
        None,
        Outcome("ok", output="b'x'\n"),
    ),
    "scratch folder": (
        "open('a', 'w').write('hi'); print(open('a').read())",
        "",
        None,
        Outcome("ok", output="hi\n"),
    ),
    "function": (
        "def f(a, b):\n    return (a + b, {'k': None})",
        [1, 2],
        "f",
        Outcome("ok", output='[3, {"k": null}]'),
    ),
    "method": (
        "class Solution:\n    def f(self, a: List[int]) -> int:\n        return max(a)",
        [[1, 9]],
        "f",
        Outcome("ok", output="9"),
    ),
    "usual names": (
        "def f(n):\n    return gcd(n, 6) + len(Counter('aab')) + math.inf * 0 != 1",
        [4],
        "f",
        Outcome("ok", output="true"),
    ),
    "builtins": (
        "def f(n):\n    return pow(2, n, 1000)",
        [10],
        "f",
        Outcome("ok", output="24"),
    ),
    "deep recursion": (
        "def f(n):\n    return n and 1 + f(n - 1)",
        [2000],
        "f",
        Outcome("ok", output="2000"),
    ),
    "method that the preamble knows too": (
        "class Solution:\n    def merge(self, a): return sorted(a)",
        [[2, 1]],
        "merge",
        Outcome("ok", output="[1, 2]"),
    ),
    "function that only the preamble knows": (
        "from math import *",
        [4],
        "factorial",
        Outcome("error", message="NameError: there is no function 'factorial'"),
    ),
    "main guard of a function": (
        "def f():\n    return __name__\nif __name__ == '__main__': print(input())",
        [],
        "f",
        Outcome("ok", output='"answer"'),
    ),
    "prints beside": (
        "def f():\n    print('x')\n    return 1.5",
        [],
        "f",
        Outcome("ok", output="1.5"),
    ),
    "syntax": (
        "x = 1\nif x\n",
        "",
        None,
        Outcome("syntax", message="SyntaxError: expected ':'", line=2),
    ),
    "exception": (
        "def g():\n    return 1 / 0\n\ng()",
        "",
        None,
        Outcome("error", message="ZeroDivisionError: division by zero", line=2),
    ),
    "in a thread": (
        "import threading\ndef g():\n    raise KeyError(1)\n"
        "t = threading.Thread(target=g)\nt.start()",
        "",
        None,
        Outcome("error", message="KeyError: 1", line=3),
    ),
    "no function": (
        "g = 1",
        [],
        "f",
        Outcome("error", message="NameError: there is no function 'f'"),
    ),
    "no JSON": (
        "def f():\n    return {1}",
        [],
        "f",
        Outcome("error", message="TypeError: Object of type set is not JSON serializable"),
    ),
    "exit in a function": (
        "def f():\n    exit(3)",
        [],
        "f",
        Outcome("error", message="SystemExit: 3", line=2),
    ),
    "memory": ("x = [0] * 10**9", "", None, Outcome("memory", message="MemoryError: ", line=1)),
    "exit status": (
        "import os; os._exit(3)",
        "",
        None,
        Outcome("crash", message="the process ended with exit status 3"),
    ),
    "signal": (
        "import os; os.kill(os.getpid(), 11)",
        "",
        None,
        Outcome("crash", message="the process was ended by SIGSEGV"),
    ),
    "left without a value": (
        "import os\ndef f():\n    os._exit(0)",
        [],
        "f",
        Outcome("crash", message="the process ended before the program did"),
    ),
}
"""Source, what it is given, the function that is called, and what comes of it."""


@pytest.mark.parametrize("backend", LOCAL)
def test_programs_and_functions_end_as_they_should(backend):
    for name, (source, value, function, outcome) in ENDS.items():
        assert run_once(backend, source, value, function) == outcome, name


@pytest.mark.parametrize("backend", LOCAL)
def test_all_tests_of_an_answer_share_one_start_and_no_memory(backend):
    source = "import builtins\nn = getattr(builtins, 'n', 0)\nbuiltins.n = n + 1\nprint(n, input())"
    with sandbox(backend).start(Program(source)) as run:
        assert [run.call(text).output for text in ("a", "b", "c")] == ["0 a\n", "0 b\n", "0 c\n"]


@pytest.mark.parametrize("backend", LOCAL)
def test_limits(backend):
    assert run_once(backend, "while True: pass").ending == "timeout"
    assert run_once(backend, "while True: print('x' * 1000)").ending == "output"
    assert run_once(backend, "def f():\n    return [0] * 10**6", [], "f").ending == "output"
    assert (
        run_once(backend, "open('a', 'w').write('x' * 5_000_000)").message
        == "OSError: [Errno 27] File too large"
    )


@pytest.mark.parametrize("backend", LOCAL)
def test_a_run_has_a_deadline_of_its_own(backend):
    program = Program("import time; time.sleep(0.5); print(input())")
    with sandbox(backend, Resources(time_s=2, total_s=2)).start(program) as run:
        endings = [run.call("a").ending for _ in range(20)]
    assert "ok" not in endings[endings.index("timeout") :]


def test_a_run_that_finds_no_sandbox_free_does_not_judge_its_program(monkeypatch):
    monkeypatch.setattr(local, "DEADLINE_S", 0.0)
    box = sandbox("unsafe_process", LIMITS, 2)
    with box.start(Program("print(1)")) as run, box.start(Program("print(2)")) as other:
        with (
            pytest.raises(SandboxUnreachableError, match="max_parallel"),
            box.start(Program("print(1)")),
        ):
            pass
        assert [one.call("").output for one in (run, other)] == ["1\n", "2\n"]
    with box.start(Program("print(3)")) as run:
        assert run.call("").output == "3\n"


@pytest.mark.parametrize("backend", LOCAL)
def test_an_interpreter_that_does_not_run_is_told(backend):
    sandbox(backend)
    with pytest.raises((SandboxError, OSError), match="/nowhere/python"):
        make_sandbox(backend, LIMITS, python="/nowhere/python").start(Program("")).__enter__()
    assert "/nowhere/python" in make_sandbox(backend, LIMITS, python="/nowhere/python").trouble()


@pytest.mark.skipif(os.geteuid() != 0, reason="for root: the kernel limits everybody else")
def test_root_without_a_user_of_its_own_is_refused(monkeypatch):
    sandbox("bubblewrap")
    monkeypatch.setattr(bubblewrap, "_is_privileged", lambda: False)
    refusal = make_sandbox("bubblewrap", LIMITS).trouble()
    assert "cannot limit processes" in refusal or "does not start" in refusal


@given(
    st.binary()
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: repr(v).encode())
)
def test_whatever_comes_out_of_a_sandbox_is_an_outcome(frame):
    assert isinstance(outcome_of(frame, None), Outcome)
    for entry in (None, "f"):
        assert isinstance(outcome_of_report(frame.decode("utf-8", "replace"), "", entry), Outcome)


@pytest.mark.parametrize(
    "frame",
    [
        b"[" * 100_000,
        b"9" * 10_000,
        b'{"ending": []}',
        b'{"ending": "passed"}',
        b'{"ending": "ended"}',
    ],
)
def test_a_forged_frame_is_no_value(frame):
    assert outcome_of(frame, "f") == Outcome(
        "crash", message="the process ended before the program did"
    )


def test_a_channel_has_a_deadline_a_largest_frame_and_an_end():
    (other, out), (back, answer) = os.pipe(), os.pipe()
    channel = Channel(out, back, 10)
    with pytest.raises(TimeoutError):
        channel.send(b"x" * 10_000_000, time.monotonic() + 0.1)
    with pytest.raises(TimeoutError):
        channel.receive(time.monotonic() + 0.1)
    os.write(answer, (11).to_bytes(4, "big"))
    with pytest.raises(ChannelFull):
        channel.receive(time.monotonic() + 1)
    for end in (other, answer):
        os.close(end)
    with pytest.raises(ChannelClosed):
        channel.receive(time.monotonic() + 1)
    with pytest.raises(ChannelClosed):
        channel.send(b"x", time.monotonic() + 1)
    for end in (out, back):
        os.close(end)
