"""docs/configuration.md, docs/troubleshooting.md and `rltf/base.yaml` are those of the code, the
demo's table that of its numbers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"
sys.path.insert(0, str(ROOT / "tools"))  # programs, not a package

import demo_table  # noqa: E402
from base_yaml import BASE, with_block  # noqa: E402
from reference import configuration  # noqa: E402
from troubleshooting import PAGE as TROUBLE  # noqa: E402
from troubleshooting import with_tables  # noqa: E402


@pytest.mark.parametrize(
    ("file", "refreshed"),
    [
        (PAGE, lambda _: configuration()),
        (BASE, with_block),
        (TROUBLE, with_tables),
        *((page, demo_table.with_demo) for page in demo_table.PAGES),
    ],
    ids=["configuration.md", "base.yaml", "troubleshooting.md", "README.md", "pretrained"],
)
def test_what_is_made_of_the_code_is_current(file: Path, refreshed: Callable[[str], str]) -> None:
    written = file.read_text("utf-8")
    assert written == refreshed(written), "write it again: python tools/refresh.py"


def test_a_demos_folder_gives_the_pages_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {"sd": {"first": [0.0, 0.9], "second": [0.8, 0.5, 0.7]}}
    made = {"steps": 12, "precision": "fp32", "machine": "arm64, 8 cores", "date": "2026-01-02"}
    (tmp_path / "summary.json").write_text(json.dumps({**made, "methods": runs}), "utf-8")
    (tmp_path / "report.png").write_bytes(b"png")
    for name in ("RESULTS", "PICTURE"):
        monkeypatch.setattr(demo_table, name, tmp_path / name)
    demo_table.take(tmp_path)
    page = f"a\n{demo_table.START}\nold\n{demo_table.END}\nb"
    filled = demo_table.with_demo(page)
    assert "| RLTF-SD | 0.00 | 0.90 | 0.80 to 0.70, lowest 0.50 |" in filled
    assert all(value in filled for value in ("12 steps", "fp32", "8 cores", "2026-01-02"))
    assert "old" not in filled
    assert demo_table.with_demo(filled) == filled
    assert (tmp_path / "PICTURE").read_bytes() == b"png"
