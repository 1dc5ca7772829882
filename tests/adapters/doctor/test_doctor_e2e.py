"""`rltf doctor` in a process of its own, with a real Ray worker."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e


def doctor(folder: Path, *words: str, **env: str) -> tuple[int, list[dict[str, str]]]:
    command = [
        sys.executable,
        "-c",
        "from rltf_verl.tools.cli.app import main; main()",
        "doctor",
        "--json",
        *words,
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout, done.stderr[-2000:]
    return done.returncode, json.loads(done.stdout)


@pytest.mark.nightly  # green in an installed copy: tests/plugin/test_packaging_e2e.py
def test_green_on_the_cpu_here_and_in_a_worker(tmp_path: Path) -> None:
    code, checks = doctor(tmp_path, VERL_PLATFORM="cpu")
    assert [check for check in checks if check["status"] != "ok"] == []
    assert code == 0
    by_process = {
        where: {c["name"] for c in checks if c["where"] == where} for where in ("driver", "worker")
    }
    assert {"config", "platform", "rollout engine", "judge"} <= by_process["driver"]
    assert {"plugin", "trainer rltf_sync", "platform cpu", "TransferQueue"} <= by_process["worker"]
    assert by_process["worker"] < by_process["driver"]


@pytest.mark.nightly  # in process: tests/adapters/doctor/test_doctor_on_cpu.py
def test_a_plugin_that_did_not_load_is_named_with_its_fix(tmp_path: Path) -> None:
    code, checks = doctor(tmp_path, VERL_PLATFORM="", VERL_USE_EXTERNAL_PLUGINS="none")
    assert code == 1
    for where in ("driver", "worker"):
        plugin = next(c for c in checks if c["where"] == where and c["name"] == "plugin")
        assert plugin["status"] == "failed"
        assert "unset VERL_USE_EXTERNAL_PLUGINS" in plugin["fix"]
    assert all(check["fix"] for check in checks if check["status"] == "failed")
