"""What the workers of `test_pool_on_cpu.py` are asked to do."""

import os
import subprocess
import sys
import time
from pathlib import Path

from rltf_verl.envs.pool import worker


def pid() -> int:
    return os.getpid()


def echo(value: object) -> object:
    return value


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def short_grace() -> int:
    """From now on an orphan ends soon after its deadline."""
    worker.GRACE_S = 0.2
    time.sleep(0.2)
    return os.getpid()


def tower() -> int:
    return (
        9**9**9**9
    )  # holds the interpreter lock: no thread and no Python signal handler gets a turn


def crash() -> None:
    os.abort()


def leave() -> None:
    sys.exit("told to")


def recurse() -> object:
    return recurse()


def eat() -> int:
    return len(bytearray(64 << 30))


def write(path: str) -> None:
    Path(path).write_text("out")


def shell() -> None:
    subprocess.run(["true"], check=True)


def secret() -> str | None:
    return os.environ.get("RLTF_TEST_SECRET")
