"""A run of the tests says what it did not see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.skips import lines_of

TESTS = """
import pytest

@pytest.mark.parametrize("i", range(3))
def test_sandbox(i):
    pytest.skip("rltf.env.sandbox=bubblewrap: the command bwrap is not installed; …")

def test_import():
    pytest.importorskip("no_such_package")

def test_other():
    pytest.skip("the moon is full")
"""


def test_one_line_per_kind_and_the_most_common_first() -> None:
    reasons = ["Skipped: no moon", *["Skipped: the command bwrap is not installed; …"] * 2]
    assert [*lines_of(reasons)] == [
        "2 skipped: needs bubblewrap (apt-get install bubblewrap)",
        "1 skipped: no moon",
    ]


def test_the_reasons_of_all_processes_stand_at_the_end(tmp_path: Path) -> None:
    root = Path(__file__).parents[1]
    (tmp_path / "test_some.py").write_text(TESTS, "utf-8")
    words = ["-p", "tests.conftest", "-p", "no:cacheprovider", "-n", "1", "--rootdir", tmp_path]
    command = [sys.executable, "-m", "pytest", "-q", *map(str, words), str(tmp_path)]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ended.stdout.splitlines()[-4:-1] == [
        "3 skipped: needs bubblewrap (apt-get install bubblewrap)",
        "1 skipped: could not import 'no_such_package': No module named 'no_such_package'",
        "1 skipped: the moon is full",
    ], ended.stdout + ended.stderr
