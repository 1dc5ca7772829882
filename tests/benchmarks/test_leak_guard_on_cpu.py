"""The leak guard keeps what docs/feedback_guard.md promises."""

from pathlib import Path

import pytest

from benchmarks.leak_guard import HEADER, STYLES, measure, table_line
from benchmarks.leak_texts import NUM, labelled_texts
from rltf_verl.envs.binary_matrix import BinaryMatrix

DOCS = Path(__file__).parents[2] / "docs" / "feedback_guard.md"


@pytest.fixture(scope="module")
def scores():
    return {style: measure(BinaryMatrix(style=style), list(labelled_texts(style))) for style in STYLES}


@pytest.mark.parametrize("style", STYLES)
def test_direct_leaks_are_found_and_innocent_texts_pass(scores, style):
    assert sum(scores[style].num.values()) >= 400
    assert scores[style].share("direct") >= 0.99
    assert scores[style].share("innocent") <= 0.02
    for kind in ("paraphrased", "spelled", "partial"):
        assert scores[style].share(kind) >= 0.95, kind


@pytest.mark.parametrize("style", STYLES)
def test_so_it_is_with_texts_that_nobody_has_looked_at(style):
    small = {"direct": 60, "innocent": 100}
    other = measure(BinaryMatrix(style=style), list(labelled_texts(style, seed=1234, num=NUM | small)))
    assert other.share("direct") >= 0.99
    assert other.share("innocent") <= 0.02


def test_the_table_in_the_docs_is_what_is_measured(scores):
    lines = DOCS.read_text("utf-8").splitlines()
    assert "| " + " | ".join(HEADER) + " |" in lines
    for style in STYLES:
        *measured, _ = table_line(f"binary_matrix, {style}", scores[style])  # the time is of another machine
        assert any(line.startswith("| " + " | ".join(measured) + " |") for line in lines), measured


def test_the_texts_are_different_and_the_same_again():
    texts = [item.text for item in labelled_texts("official", num={"direct": 30, "innocent": 30})]
    assert len(set(texts)) == 60
    assert texts == [item.text for item in labelled_texts("official", num={"direct": 30, "innocent": 30})]
