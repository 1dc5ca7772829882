"""The leak guard keeps what docs/feedback.md promises."""

import json

import pytest

from benchmarks.leak_guard import UNSEEN, measure, table_line
from benchmarks.leak_texts.files import problem_of, read_folder, read_row


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
    scores = measure(list(read_folder(tmp_path)))
    assert table_line("x", scores)[:3] == ["x", "1/2 = 0.500", "0/1 = 0.000"]
    assert table_line("x", scores)[-1] == "copy 1/2"


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
