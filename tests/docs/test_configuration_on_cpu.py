"""docs/configuration.md, docs/troubleshooting.md and `rltf/base.yaml` are those of the code, the
demo's table that of its numbers.
"""

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
