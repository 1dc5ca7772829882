"""docs/upstream.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.findall(
    r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "upstream.md").read_text("utf-8")
)


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_it_is_there(file: str, test: str) -> None:
    assert f"def {test}(" in (ROOT / file).read_text("utf-8")


def test_every_change_has_one() -> None:
    assert len(NAMED) == 7
