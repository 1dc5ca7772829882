"""rltf_verl.stuck: a process that can never go on."""

import subprocess
import sys


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
