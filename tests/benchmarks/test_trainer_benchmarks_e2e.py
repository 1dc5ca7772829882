"""The benchmarks of the real trainer, for real: two or three small steps of each."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (
            "controller",
            (
                "--repeats 1 --steps 3 --warm-up 1 --problems 2 --sessions 2 --tokens 16 --hidden"
                " 32 --layers 1"
            ),
        ),
        ("logging_cost", "--steps 3 --warm-up 1 --problems 2 --sessions 2 --tokens 16"),
        ("scale", "--steps 2 --warm-up 0 --tokens 16"),
        ("step_costs", "--steps 7 --methods grpo_single"),
    ],
)
def test_a_benchmark_runs_by_its_command(name: str, options: str, tmp_path: Path) -> None:
    command = [sys.executable, f"benchmarks/{name}.py", *options.split(), "--out", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert run.returncode == 0, run.stdout[-1000:] + run.stderr[-3000:]
    assert json.loads((tmp_path / f"{name}.json").read_text())["settings"]["steps"] == int(
        options.split("--steps ")[1][0]
    )
