"""The leak guard keeps what docs/feedback_guard.md promises."""

from functools import cache
from pathlib import Path

import pytest

from benchmarks.leak_guard import HEADER, Scores, measure, table_line
from benchmarks.leak_texts.sets import TextSet, all_sets

DOCS = Path(__file__).parents[2] / "docs" / "feedback_guard.md"
SETS = {texts.name: texts for texts in all_sets() if texts.name != "code"}  # programs take minutes on a busy machine
SMALL = {"direct": 60, "innocent": 100}
each_set = pytest.mark.parametrize("texts", SETS.values(), ids=SETS)


@cache
def scores(name: str) -> Scores:
    return measure(SETS[name].env, SETS[name].texts())


@each_set
def test_direct_leaks_are_found_and_innocent_texts_pass(texts: TextSet):
    found = scores(texts.name)
    assert sum(found.num.values()) >= 400
    assert found.share("direct") >= 0.99
    assert found.share("innocent") <= 0.02


@pytest.mark.parametrize("name", [name for name in SETS if name.startswith("binary_matrix")])
@pytest.mark.parametrize("kind", ["paraphrased", "spelled", "partial"])
def test_so_are_the_other_leaks_of_a_matrix(name: str, kind: str):
    assert scores(name).share(kind) >= 0.95


@each_set
def test_so_it_is_with_other_problems(texts: TextSet):
    other = measure(texts.env, texts.texts(seed=1234, num=SMALL))
    assert other.share("direct") >= 0.99
    assert other.share("innocent") <= 0.02


@each_set
def test_the_table_in_the_docs_is_what_is_measured(texts: TextSet):
    lines = DOCS.read_text("utf-8").splitlines()
    assert "| " + " | ".join(HEADER) + " |" in lines
    *measured, _ = table_line(texts.name, scores(texts.name))  # the time is of another machine
    assert any(line.startswith("| " + " | ".join(measured) + " |") for line in lines), measured


@each_set
def test_the_texts_are_different_and_the_same_again(texts: TextSet):
    few = {"direct": 30, "innocent": 30}
    made = [item.text for item in texts.texts(num=few)]
    assert len(set(made)) == 60
    assert made == [item.text for item in texts.texts(num=few)]
