"""The benchmark of the real trainer, for real: three small steps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
ROOT = Path(__file__).parents[2]


def test_the_controller_runs_by_its_command(tmp_path: Path) -> None:
    options = "--repeats 1 --steps 3 --warm-up 1 --problems 2 --sessions 2 --tokens 16 --hidden 32"
    command = [sys.executable, "benchmarks/controller.py", *options.split(), "--layers", "1"]
    run = subprocess.run(
        [*command, "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=1800
    )
    assert run.returncode == 0, run.stdout[-1000:] + run.stderr[-3000:]
    assert json.loads((tmp_path / "controller.json").read_text())["settings"]["steps"] == 3
