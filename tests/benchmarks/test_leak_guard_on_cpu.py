"""The leak guard keeps what docs/feedback.md promises."""

import json

import pytest

from benchmarks.leak_guard import UNSEEN, measure
from benchmarks.leak_texts.files import read_row


@pytest.mark.parametrize(
    ("env", "least"),
    [
        ("binary_matrix", 32),
        ("knights_knaves", 46),
        ("shortest_path", 44),
        pytest.param("math", 34, marks=pytest.mark.nightly),
        pytest.param("reasoning_gym", 34, marks=pytest.mark.nightly),
    ],
)
def test_unseen_texts_are_found_as_the_docs_say(env: str, least: int) -> None:
    lines = (UNSEEN / f"{env}.jsonl").read_text("utf-8").splitlines()
    scores = measure([read_row(json.loads(line)) for line in lines])
    innocent = scores.num.pop("innocent")
    assert (scores.num.total(), innocent) == (60, 60)
    assert scores.flagged.pop("innocent", 0) == 0
    assert scores.flagged.total() >= least
