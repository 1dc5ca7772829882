"""What a user sees who starts the real driver with something wrong: one line that names it, before
Ray starts. The other refusals are tested in process: tests/adapters/startup/test_checks_on_cpu.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e import runs

pytestmark = pytest.mark.e2e


def test_a_cpu_config_without_the_cpu_platform(tmp_path: Path, data: dict[str, str]) -> None:
    command = [sys.executable, "-m", "verl.trainer.main_ppo", "--config-name=rltf_sd"]
    command += [*runs.SETTINGS, "rltf/hardware=cpu", *(f"{k}={v}" for k, v in data.items())]
    clean = {k: v for k, v in os.environ.items() if k not in ("VERL_PLATFORM", "RAY_ADDRESS")}
    done = subprocess.run(
        command, cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=200
    )
    printed = done.stdout + done.stderr
    assert done.returncode != 0, printed[-2000:]
    assert "ray init kwargs" not in printed, "it got as far as Ray"
    assert "start with VERL_PLATFORM=cpu in the environment" in printed
