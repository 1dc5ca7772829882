"""`upstream/*.patch`: each applies to the installed verl, and its own test passes with it and not
without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import verl

pytestmark = pytest.mark.nightly
PATCHES = sorted((Path(__file__).parents[2] / "upstream").glob("*.patch"))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_a_patch_does_what_it_says(patch: Path, tmp_path: Path) -> None:
    installed = Path(verl.__file__).parent
    shutil.copytree(installed, tmp_path / "verl", ignore=shutil.ignore_patterns("__pycache__"))
    _apply(patch, tmp_path, "--include=tests/*")
    assert _tests(tmp_path) != 0, "verl has it already: send no patch, drop our workaround"
    _apply(patch, tmp_path, "--exclude=tests/*")
    assert _tests(tmp_path) == 0


def _apply(patch: Path, folder: Path, which: str) -> None:
    subprocess.run(["git", "apply", which, str(patch)], cwd=folder, check=True)


def _tests(folder: Path) -> int:
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests"]
    env = {**os.environ, "PYTHONPATH": str(folder), "VERL_USE_EXTERNAL_PLUGINS": "none"}
    env.pop("VERL_PLATFORM", None)  # that of the CPU is a plugin's
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, check=False).returncode
