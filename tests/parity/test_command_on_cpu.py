"""`python -m tools.parity`: exit codes, and one line for a file that cannot be compared."""

import json
from pathlib import Path

import pytest
from typer import Typer
from typer.testing import CliRunner, Result

from tools.parity.__main__ import main

GOLDEN = Path(__file__).parents[1] / "golden" / "parity_cases.json"
RAMP = {
    "rl_coef": [0.0, 1.0],
    "current_batch": 5,
    "total_batches": 11,
    "start_batch": 0,
    "relative_schedule": False,
}
OTHER_SCHEMAS = [
    [],
    {},
    {"cases": [{}]},
    {"cases": []},
    {"cases": [{"name": "x", "groups": 3}]},
    "x",
]


def write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def parity(file: Path) -> Result:
    app = Typer()
    app.command()(main)
    return CliRunner().invoke(app, [str(file)], env={"COLUMNS": "160"}, catch_exceptions=False)


@pytest.mark.nightly
def test_parity_with_the_released_code() -> None:
    result = parity(GOLDEN)
    assert result.exit_code == 0, result.stdout
    assert "DIFFERS" not in result.stdout
    assert "differences on purpose: fixed defect: with horizon > 2" in result.stdout
    assert "not compared: env_checks" in result.stdout


def test_parity_lists_every_number_that_differs(tmp_path: Path) -> None:
    right, wrong = {**RAMP, "expected": 0.5}, {**RAMP, "expected": 0.75}
    result = parity(write(tmp_path / "p.json", {"cases": [], "rl_coef_schedule": [right, wrong]}))
    assert result.exit_code == 1
    assert "DIFFERS rl_coef_schedule[1]: weight: this package 0.5, release 0.75" in result.stdout
    assert "1 of 2 numbers differ" in result.stdout


@pytest.mark.parametrize("content", [*map(json.dumps, OTHER_SCHEMAS), "\ud8ff{", None])
def test_a_file_that_cannot_be_compared(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "p.json"
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogatepass"))
    result = parity(path)
    assert result.exit_code == 2
    assert str(path) in result.stderr
    assert result.stderr.count("\n") == 1
