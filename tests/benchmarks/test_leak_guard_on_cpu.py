"""The leak guard keeps what docs/feedback_guard.md promises."""

import json
from functools import cache
from pathlib import Path

import pytest

from benchmarks.leak_guard import HEADER, Scores, folder_line, measure, table_line
from benchmarks.leak_texts.files import problem_of, read_folder, read_row
from benchmarks.leak_texts.sets import TextSet, all_sets

DOCS = Path(__file__).parents[2] / "docs" / "feedback_guard.md"
SETS = {
    texts.name: texts for texts in all_sets() if texts.name != "code"
}  # programs take minutes on a busy machine
SMALL = {"direct": 60, "innocent": 100}
each_set = pytest.mark.parametrize("texts", SETS.values(), ids=SETS)


@cache
def scores(name: str) -> Scores:
    return measure([(SETS[name].env, item) for item in SETS[name].texts()])


@pytest.mark.nightly
@each_set
def test_direct_leaks_are_found_and_innocent_texts_pass(texts: TextSet):
    found = scores(texts.name)
    assert sum(found.num.values()) >= 400
    assert found.share("direct") >= 0.99
    assert found.share("innocent") <= 0.02


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in SETS if name.startswith("binary_matrix")])
@pytest.mark.parametrize("kind", ["paraphrased", "spelled", "partial"])
def test_so_are_the_other_leaks_of_a_matrix(name: str, kind: str):
    assert scores(name).share(kind) >= 0.95


@pytest.mark.parametrize(
    "texts",
    [SETS["binary_matrix, compact"], SETS["knights_knaves, compact, known"]],
    ids=lambda texts: texts.name,
)
def test_direct_leaks_are_found_and_innocent_texts_pass_in_a_sample(texts: TextSet):
    other = measure([(texts.env, item) for item in texts.texts(seed=1234, num=SMALL)])
    assert other.share("direct") >= 0.99
    assert other.share("innocent") <= 0.02


@pytest.mark.nightly
@each_set
def test_the_table_in_the_docs_is_what_is_measured(texts: TextSet):
    lines = DOCS.read_text("utf-8").splitlines()
    assert "| " + " | ".join(HEADER) + " |" in lines
    *measured, _ = table_line(texts.name, scores(texts.name))  # the time is of another machine
    assert any(line.startswith("| " + " | ".join(measured) + " |") for line in lines), measured


@pytest.mark.nightly
@each_set
def test_the_texts_are_different_and_the_same_again(texts: TextSet):
    few = {"direct": 30, "innocent": 30}
    made = [item.text for item in texts.texts(num=few)]
    assert len(set(made)) == 60
    assert made == [item.text for item in texts.texts(num=few)]


def row(text: str, leak: object, **more) -> str:
    fields = {
        "env": "knights_knaves",
        "problem_seed": 3,
        "attempt": "",
        "text": text,
        "leak": leak,
        "category": "copy",
    }
    return json.dumps({**fields, **more})


def test_texts_from_a_folder_are_measured_by_category(tmp_path):
    _, problem = problem_of("knights_knaves", 3)
    lines = [
        row(f"Solution: {problem.reference}", True),
        row("Look again.", False),
        row("Think.", True),
        "",
    ]
    (tmp_path / "some.jsonl").write_text("\n".join(lines), "utf-8")
    scores = measure([(one.env, one.item) for one in read_folder(tmp_path)])
    assert folder_line("x", scores)[:3] == ["x", "1/2 = 0.500", "0/1 = 0.000"]
    assert folder_line("x", scores)[-1] == "copy 1/2"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (row("x", "yes"), "leak='yes'"),
        (row("x", True, env="none"), "none"),
        ("[", "delimiter|Expecting"),
        (row("x", True, problem_seed=True), "problem_seed=True"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, complaint):
    (tmp_path / "bad.jsonl").write_text(f"\n{line}\n", "utf-8")
    with pytest.raises(ValueError, match=rf"bad\.jsonl:2: .*({complaint})"):
        list(read_folder(tmp_path))
    with pytest.raises(ValueError, match=r"no .*jsonl"):
        list(read_folder(tmp_path / "none"))


@pytest.mark.parametrize(
    "name",
    [
        "binary_matrix",
        "knights_knaves",
        "shortest_path",
        "math",
        pytest.param("reasoning_gym", marks=pytest.mark.nightly),
        "code",
    ],
)
def test_a_seed_stands_for_one_problem(name):
    env, problem = problem_of(name, 7)
    assert problem_of(name, 7)[1] is problem
    assert env.name == name
    assert problem.reference not in ("", problem_of(name, 8)[1].reference)


UNSEEN = Path(__file__).parents[2] / "benchmarks" / "leak_texts" / "unseen"


@pytest.mark.parametrize(
    ("env", "least"),
    [
        ("knights_knaves", 48),
        ("shortest_path", 54),
        pytest.param("reasoning_gym", 50, marks=pytest.mark.nightly),
    ],
)
def test_texts_by_another_author_are_found_as_the_docs_say(env: str, least: int):
    lines = (UNSEEN / f"{env}.jsonl").read_text("utf-8").splitlines()
    rows = [read_row(json.loads(line)) for line in lines]
    found = measure([(row.env, row.item) for row in rows])
    innocent = found.num.pop("innocent")
    assert (found.num.total(), innocent) == (60, 60)
    assert found.flagged.pop("innocent", 0) == 0
    assert found.flagged.total() >= least
