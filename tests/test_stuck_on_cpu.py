"""rltf_verl.stuck: a process that can never go on."""

import subprocess
import sys

import pytest

from tests.support.commands import with_open_input


def test_a_call_that_holds_the_interpreter_at_once_is_ended_too():
    """The thread that postpones the end may not have run before."""
    code = (
        "import re, threading\nfrom rltf_verl.stuck import ended_if_stuck\n"
        "threading.Thread.run = lambda self: None\n"
        "with ended_if_stuck(1.0):\n"
        "    re.match('(a+)+b', 'a' * 60)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "Timeout" in ended.stderr


def test_the_timer_ends_with_the_call():
    code = (
        "import time\nfrom rltf_verl.stuck import ended_if_stuck\n"
        "with ended_if_stuck(0.5):\n"
        "    time.sleep(1.5)\n"
        "time.sleep(1.5)"
    )
    ended = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    assert ended.returncode == 0


@pytest.mark.parametrize(
    "left",
    [
        "ThreadPoolExecutor().submit(time.sleep, 3600)",
        "ProcessPoolExecutor().submit(time.sleep, 3600)",
        "threading.Thread(target=input, daemon=True).start()",
        "threading.Thread(target=time.sleep, args=[3600]).start()",
    ],
)
@pytest.mark.parametrize(("code", "exit_code"), [("0", 0), ("'refused'", 1), ("None", 0)])
def test_no_thread_of_a_grader_holds_up_the_end(left: str, code: str, exit_code: int) -> None:
    program = (
        "import atexit, sys, threading, time\n"
        "from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor\n"
        "from rltf_verl.stuck import run_and_end\n"
        f"{left}\n"
        "atexit.register(print, 'released')\n"
        f"run_and_end(lambda: sys.exit({code}))"
    )
    ended = with_open_input([sys.executable, "-c", program])
    assert (ended.returncode, ended.stdout) == (exit_code, "released\n")
    assert ended.stderr == ("refused\n" if exit_code else "")


def test_a_program_that_raises_ends_with_1_and_its_traceback() -> None:
    program = "from rltf_verl.stuck import run_and_end\nrun_and_end(lambda: 1 / 0)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert "ZeroDivisionError" in ended.stderr
