"""The recipe of a test file, and its scripts with programs in place of those that they start."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rltf_verl.config import RLTFConfig
from tests.recipes.composing import rltf_of

OURS = (
    *("JUDGE_", "RLTF_", "RL2F_", "STUDENT_", "WRITING_", "PROGRAM", "STEPS", "SEEDS", "HOURS"),
    *("MODEL", "ROLLOUT", "OUT", "NUM_GPUS", "TUNE", "FAMILY", "SEED"),
)
"""Beginnings of the variables that the scripts read."""


@pytest.fixture
def config(request: pytest.FixtureRequest) -> RLTFConfig:
    """Of the recipe that the file's name has: `test_raft_on_cpu.py`."""
    return rltf_of(request.path.stem.removeprefix("test_").removesuffix("_on_cpu"))


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Folder of programs that print their names and words."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("python", "python3", "rltf", "torchrun", "vllm"):
        write_program(folder / name, f'#!/bin/bash\necho "{name} $*"\n')
    return folder


Start = Callable[..., tuple[list[str], str]]


@pytest.fixture
def start(tmp_path: Path, programs: Path) -> Start:
    """Script, its arguments, variables and exit status -> (lines of what it started, stderr)."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}

    def run(
        script: Path, *arguments: str, status: int = 0, **variables: str
    ) -> tuple[list[str], str]:
        environment = {**inherited, "PATH": f"{programs}:{os.environ['PATH']}", **variables}
        command = ["bash", str(script), *arguments]
        ended = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=30
        )
        assert ended.returncode == status, ended.stderr
        return ended.stdout.splitlines(), ended.stderr

    return run
