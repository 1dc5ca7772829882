"""An endpoint on loopback."""

from collections.abc import Iterator

import pytest

from tests.support.judge.server import InThread, JudgeServer


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with InThread(JudgeServer()) as thread:
        yield thread.server
