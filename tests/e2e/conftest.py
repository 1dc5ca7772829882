"""Data of the runs."""

from __future__ import annotations

import pytest

from tests.e2e import runs


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The overrides that name 3x3 problems."""
    return runs.build_data(tmp_path_factory.mktemp("data"))
