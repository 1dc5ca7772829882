"""docs/configuration.md, docs/troubleshooting.md and `rltf/base.yaml` are those of the code."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"
sys.path.insert(0, str(ROOT / "tools"))  # programs, not a package

from base_yaml import BASE, with_block  # noqa: E402
from reference import configuration  # noqa: E402
from troubleshooting import PAGE as TROUBLE  # noqa: E402
from troubleshooting import with_tables  # noqa: E402


def test_the_reference_is_current() -> None:
    assert PAGE.read_text("utf-8") == configuration(), "write it anew: python tools/refresh.py"


def test_the_yaml_has_the_defaults_of_the_code() -> None:
    written = BASE.read_text("utf-8")
    assert written == with_block(written), "write it anew: python tools/refresh.py"


def test_the_rules_of_the_troubleshooting_page_are_current() -> None:
    written = TROUBLE.read_text("utf-8")
    assert written == with_tables(written), "write it again: python tools/refresh.py"
