"""`make install` says little when all is well, and everything when a stage fails."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = """#!/bin/sh
[ "$2" = venv ] && mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp pip "$3/bin/pip"
[ "$1" = -m ] && echo "SyntaxWarning: invalid escape sequence" >&2
[ "$2" != compileall ]
"""
PIP = """#!/bin/sh
echo "WARNING: Location ignored" >&2
case "$*" in *torch==*) echo "no such torch"; exit $TORCH_STATUS ;; esac
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The Makefile, with programs that only print."""
    for name in ("Makefile", "setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for name, text in (("python", PYTHON), ("pip", PIP)):
        (tmp_path / name).write_text(text, "utf-8")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def install(clone: Path, torch_status: int) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "install", "PYTHON=./python"],
        cwd=clone,
        env={**known, "TORCH_STATUS": str(torch_status)},
        capture_output=True,
        text=True,
    )


def test_a_line_per_stage_and_what_to_type_next(clone: Path) -> None:
    done = install(clone, 0)
    *stages, last = done.stdout.splitlines()
    assert (done.returncode, len(stages)) == (0, 5), done.stderr
    assert all(stage.endswith(" s") for stage in stages)
    assert "rltf view --example" in last
    assert done.stderr == ""


def test_a_stage_that_fails_shows_all_that_it_printed(clone: Path) -> None:
    done = install(clone, 3)
    assert done.returncode != 0
    assert "no such torch" in done.stderr
    assert "Location ignored" in done.stderr
    assert not (clone / ".venv" / "installed").exists()
