"""`rltf data check` and `show`: what is wrong with a dataset, what is in it."""

import re
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rltf_verl.data.questions import read_questions
from rltf_verl.data.schema import check_parquet
from rltf_verl.tools.data.build import build_parquet
from rltf_verl.tools.data.check import check_files, shared_questions
from tests.support.commands import rltf
from tests.support.verl_rows import verl_row, write_rows


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    built = build_parquet("binary_matrix", tmp_path, 0, 30, 5, n_min=4)
    return built.train, built.test


def rewrite(path: Path, change) -> Path:
    table = pq.read_table(path)
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema.remove_metadata()), path)
    return path


@pytest.mark.nightly
def test_repeated_rows_are_counted_and_shared_ones_must_be_mended(tmp_path: Path) -> None:
    built = build_parquet("binary_matrix", tmp_path, 0, 19_800, 200, mode="official")
    report = check_files([built.train, built.test])
    assert report.files[0].num_repeated == 19_800 - 11_945, "as many as the release has"
    assert len(report.errors) == 1
    train, test = (file.questions for file in report.files)
    assert sum(test[question] for question in test.keys() & train.keys()) == 97
    assert f"share {len(test.keys() & train.keys())} questions" in report.errors[0]
    again = check_files([built.train, built.train])
    assert again.notes
    assert not again.errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[3]["extra_info"].update(task="{"), "row 3: extra_info.task is not JSON"),
        (lambda rows: rows[3].update(prompt=[]), "row 3: a prompt is no list"),
        (lambda rows: rows[3]["prompt"][0].update(content=" "), "row 3: its prompt has no text"),
        (lambda rows: rows[3]["prompt"][0].update(content=None), "row 3: a message of the prompt"),
        (
            lambda rows: rows[3]["prompt"].insert(0, {"role": "system", "content": None}),
            "row 3: a message of the prompt has no content",
        ),
        (lambda rows: rows[3].update(agent_name="x"), "row 3: agent_name is 'x'"),
        (
            lambda rows: rows[3]["prompt"][0].update(role="root"),
            "row 3: a message has the role 'ro",
        ),
        (lambda rows: rows[3]["prompt"][0].update(role=None), "row 3: a message has the role None"),
        (lambda rows: rows[3]["prompt"][0].update(role="assistant"), "end it with the user's"),
        (
            lambda rows: rows[3]["reward_model"].update(ground_truth=" "),
            "row 3: its reference answ",
        ),
        (lambda rows: rows[3]["reward_model"].update(ground_truth="nan"), "row 3: its reference"),
    ],
)
def test_every_row_is_looked_at(files: tuple[Path, Path], change, message: str) -> None:
    path = rewrite(files[0], change)
    assert [message in error for error in check_files([path]).errors] == [True]
    result = rltf("data", "check", path)
    assert (result.exit_code, "fix: " in result.stdout) == (1, True)


def test_many_bad_rows_are_counted(files: tuple[Path, Path]) -> None:
    path = rewrite(files[0], lambda rows: [row.update(agent_name=None) for row in rows])
    report = check_files([path])
    assert [re.findall(r"\d+", error)[-1] for error in report.errors] == [*"01234", "25"]
    assert report.files[0].num_repeated == 0, "what cannot be read repeats nothing"


@pytest.mark.parametrize(
    ("key", "column", "values"),
    [
        ("ground_truth", "reward_model", [1.0, float("nan")]),
        ("index", "extra_info", [True, False]),
        ("index", "extra_info", [1.0, float("nan")]),
        ("index", "extra_info", [1.0, float("inf")]),
        ("index", "extra_info", [[1], [2]]),
        ("index", "extra_info", [{"a": 1}, {"a": 2}]),
    ],
)
def test_values_that_cannot_be_used_are_named(tmp_path: Path, key, column, values) -> None:
    rows = [
        {**verl_row(extra_info={"index": i}), column: {**verl_row()[column], key: value}}
        for i, value in enumerate(values)
    ]
    path = write_rows(tmp_path / "x.parquet", rows)
    # The first row is read for the columns too, before all are looked at.
    at_once = not isinstance(values[0], float)
    with pytest.raises(ValueError, match=f"{key} is") if at_once else nullcontext():
        (error,) = check_files([path]).errors
        assert f"row 1: {column}.{key} is" in error


def test_a_question_with_two_answers_is_noted_and_a_role_that_is_null_shown(tmp_path: Path) -> None:
    rows = [
        verl_row(extra_info={"index": i}, reward_model={"ground_truth": answer})
        for i, answer in enumerate(("2", "3", "2"))
    ]
    path = write_rows(tmp_path / "x.parquet", rows)
    result = rltf("data", "check", path)
    assert "1 question with more than one reference answer, e.g. '1 + 1?'" in result.stdout
    assert "all rows are fine" not in result.stdout
    write_rows(path, [verl_row(prompt=[{"role": None, "content": "1 + 1?"}])])
    assert "1 + 1?" in rltf("data", "show", path).stdout


def test_conversations_that_end_alike_are_others(tmp_path: Path) -> None:
    """Each row has an earlier message of its own."""
    said = [{"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "Go on."}]
    rows = [
        verl_row(prompt=[{"role": "user", "content": first}, *said], extra_info={"index": index})
        for index, first in enumerate("abcd")
    ]
    ends = {"a.parquet": rows[:2], "b.parquet": rows[2:]}
    report = check_files([write_rows(tmp_path / name, part) for name, part in ends.items()])
    assert report.errors == []
    assert [file.num_repeated for file in report.files] == [0, 0]


def test_files_that_share_a_question_are_told_as_a_plan_does_it(tmp_path: Path) -> None:
    one = one_row(tmp_path / "a.parquet", TEXT)
    other = one_row(tmp_path / "b.parquet", IN_PARTS, extra_info={**INFO, "split": "test"})
    line = f"{one} and {other} share 1 question: what is tested was trained on"
    assert check_files([one, other]).errors == [line]
    assert shared_questions([str(one)], [str(one), str(other)]) == [line]


@pytest.mark.parametrize("splits", [(None, None), ("train", None)])
def test_files_that_share_a_question_and_name_no_split_must_be_mended(
    tmp_path: Path, splits
) -> None:
    paths = [
        write_rows(tmp_path / f"{k}.parquet", [verl_row(extra_info={"index": k, "split": split})])
        for k, split in enumerate(splits)
    ]
    (line,) = check_files(paths).errors
    assert "extra_info.split" in line


def test_rows_that_were_changed_later_are_noticed(files: tuple[Path, Path]) -> None:
    table = pq.read_table(files[1])
    pq.write_table(table.slice(1), files[1])
    assert "content_sha256" in check_files([files[1]]).errors[0]
    pq.write_table(table, files[1], compression="gzip")
    assert not check_files([files[1]]).errors


TEXT = [{"role": "user", "content": "1+1?"}]
IN_PARTS = [
    {"role": "user", "content": [{"type": "text", "text": "1+"}, {"type": "text", "text": "1?"}]}
]
WITH_IMAGE = [
    {
        "role": "user",
        "content": [{"type": "text", "text": "?"}, {"type": "image", "image": "a.png"}],
    }
]


INFO = {"split": "train", "index": 0, "env": "math", "task": "{}"}


def one_row(path: Path, prompt: list[dict[str, object]], **columns: object) -> Path:
    row = verl_row(prompt=prompt, extra_info=INFO, agent_name="rltf")
    return write_rows(path, [{**row, **columns}])


@pytest.mark.parametrize(
    ("prompt", "columns", "message"),
    [
        (
            WITH_IMAGE,
            {},
            "the prompt ",
        ),
        (
            TEXT,
            {"images": [{"bytes": b"\x89PNG"}]},
            "the column images ",
        ),
        (
            [{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}, *TEXT],
            {},
            "a message of the prompt is of a tool call",
        ),
        (
            TEXT,
            {"videos": ["a.mp4"]},
            "the column videos ",
        ),
        (
            TEXT,
            {"audios": ["a.wav"]},
            "the column audios ",
        ),
    ],
)
def test_a_prompt_that_is_more_than_text_is_refused(
    tmp_path: Path, prompt, columns, message: str
) -> None:
    path = one_row(tmp_path / "x.parquet", prompt, **columns)
    with pytest.raises(ValueError, match=rf"{re.escape(str(path))}.*: {message}"):
        check_parquet(path)


@pytest.mark.parametrize("more", [{}, {"name": "x"}])
def test_a_message_without_content_is_named_by_its_row(tmp_path: Path, more) -> None:
    """In verl's usual column and in any other."""
    prompt = [{"role": "system", "content": None, **more}, *TEXT]
    rows = [verl_row(extra_info={"index": k}, prompt=p) for k, p in enumerate((TEXT, prompt))]
    path = write_rows(tmp_path / "x.parquet", rows)
    for command in ("check", "show"):
        told = rltf("data", command, path).output
        assert "row 1: a message of the prompt has no content" in told


def test_a_prompt_in_parts_of_text_is_their_text(tmp_path: Path) -> None:
    path = one_row(tmp_path / "x.parquet", IN_PARTS, images=[])
    check_parquet(path)  # a file without `ability`, which nothing reads
    (question,) = read_questions(path)
    assert question.messages == ({"role": "user", "content": "1+1?"},)
    assert not check_files([path]).errors
