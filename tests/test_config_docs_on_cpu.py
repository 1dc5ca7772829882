"""docs/configuration.md says what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_current(reference: ModuleType) -> None:
    written = (DOCS / "configuration.md").read_text("utf-8")
    assert written == reference.configuration(), "write it anew: python docs/refresh.py"


def test_every_key_is_explained() -> None:
    lines = [
        line
        for line in (DOCS / "configuration.md").read_text("utf-8").splitlines()
        if line.startswith("| `")
    ]
    assert len(lines) > 100
    assert [line for line in lines if line.rstrip("| ").endswith("`")] == []
