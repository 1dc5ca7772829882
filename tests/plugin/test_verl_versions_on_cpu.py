"""The contract with verl (`test_verl_contract_on_cpu.py`) against the oldest version that we allow
and the newest that pip finds, which may be one that we do not know yet.
"""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
CONTRACT = "tests/plugin/test_verl_contract_on_cpu.py"
OLDEST = re.findall(r"verl\[verl-core\]>=([\d.]+\d)", (ROOT / "setup.py").read_text("utf-8"))


def unpacked(wanted: str, folder: Path) -> str:
    """verl's wheel, without its dependencies, which are the installed ones. Returns its version."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), wanted]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip finds no {wanted}: {done.stderr.strip()[-200:]}")
    (wheel,) = folder.glob("verl-*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    return wheel.name.split("-")[1]


def broken_seams(folder: Path) -> list[str]:
    """Names of the tests of the contract that fail with the verl in `folder`."""
    env = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    where = [sys.executable, "-c", "import verl; print(verl.__file__)"]
    imported = subprocess.run(where, env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    assert imported.stdout.strip().startswith(str(folder))
    tests = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", CONTRACT]
    done = subprocess.run(tests, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout[-2000:]  # 2 and more: pytest itself
    names = re.findall(r"^(?:FAILED|ERROR) \S+?::(.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    assert bool(names) == bool(done.returncode)
    return names


def test_every_seam_is_in_the_oldest_verl_that_we_allow(tmp_path: Path) -> None:
    (oldest,) = set(OLDEST)
    assert unpacked(f"verl=={oldest}", tmp_path) == oldest
    assert broken_seams(tmp_path) == []


def test_what_the_newest_verl_has_moved(tmp_path: Path) -> None:
    """Expected to fail one day: docs/architecture.md says what then."""
    version = unpacked("verl", tmp_path)
    moved = broken_seams(tmp_path)
    if moved:
        pytest.xfail(f"verl {version}: {'; '.join(moved)}")
