"""`rltf data wrap`: other people's datasets, with what we need added and nothing else changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rltf_verl.data.provenance import read_provenance
from rltf_verl.data.schema import check_parquet, problem_from_row
from rltf_verl.data.wrap import wrap_parquet
from rltf_verl.envs import make_env


def gsm8k(i: int, **more: Any) -> dict[str, Any]:
    """A row as verl's examples/data_preprocess/gsm8k.py writes it."""
    return {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": f"What is {i}+1? Answer after ####."}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": str(i + 1)},
        "extra_info": {
            "split": "train",
            "index": 10 * i,
            "answer": f"It is {i}+1.\n#### {i + 1}",
            "question": f"{i}+1?",
        },
        **more,
    }


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def test_nothing_that_is_there_changes(tmp_path: Path) -> None:
    rows = [gsm8k(i, difficulty=i / 2, tags=["a", None]) for i in range(5)]
    source, out = write(tmp_path / "train.parquet", rows), tmp_path / "out" / "train.parquet"
    assert wrap_parquet(source, "math", out) == 5
    check_parquet(out)
    wrapped = pq.read_table(out).to_pylist()
    for before, after in zip(rows, wrapped, strict=True):
        assert after["agent_name"] == "rltf"
        extra = after["extra_info"]
        assert {k: v for k, v in extra.items() if k not in ("env", "task")} == before["extra_info"]
        assert {k: v for k, v in after.items() if k not in ("extra_info", "agent_name")} == {
            k: v for k, v in before.items() if k != "extra_info"
        }
    old, new = pq.read_schema(source), pq.read_schema(out)
    assert [new.field(name) for name in old.names if name != "extra_info"] == [
        old.field(name) for name in old.names if name != "extra_info"
    ]
    assert read_provenance(out)["command"] == "rltf data wrap train.parquet --env math"


def test_the_environment_grades_wrapped_rows(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    wrap_parquet(write(tmp_path / "train.parquet", [gsm8k(i) for i in range(3)]), "math", out)
    env = make_env("math")
    row = pq.read_table(out).to_pylist()[2]
    problem = problem_from_row(row["extra_info"], row["reward_model"])
    assert (problem.env, problem.index, problem.reference) == ("math", 20, "3")
    assert env.grade(problem, "\\boxed{3}").correct
    assert not env.grade(problem, "\\boxed{4}").correct
    assert env.worked_solution(problem) == "It is 2+1.\n#### 3"
    assert problem.data["subset"] == "openai/gsm8k"


@pytest.mark.parametrize(
    ("given", "indices"),
    [
        ([None] * 3, [0, 1, 2]),
        ([{}] * 3, [0, 1, 2]),
        ([{"split": "train"}] * 3, [0, 1, 2]),
        ([{"index": i, "env": None} for i in (7, 7, 8)], [7, 7, 8]),
        ([{"index": f"9a9b-{i}"} for i in (1, 1, 2)], None),
    ],
)
def test_an_index_is_added_where_there_is_none(
    given: list[dict | None], indices: list[int] | None, tmp_path: Path
) -> None:
    rows = [{**gsm8k(i), "extra_info": extra} for i, extra in enumerate(given)]
    if given[0] == {}:
        rows = [{key: value for key, value in row.items() if key != "extra_info"} for row in rows]
    out = tmp_path / "out.parquet"
    wrap_parquet(write(tmp_path / "x.parquet", rows), "math", out)
    wrapped = pq.read_table(out).to_pylist()
    problems = [problem_from_row(row["extra_info"], row["reward_model"]) for row in wrapped]
    if indices is None:
        assert [row["extra_info"] | extra for row, extra in zip(wrapped, given, strict=True)] == [
            row["extra_info"] for row in wrapped
        ]
        assert all(problem.index >= 0 for problem in problems)
    else:
        assert [problem.index for problem in problems] == indices
    assert [problem.reference for problem in problems] == ["1", "2", "3"]


def test_what_datasets_wrote_of_a_column_stays(tmp_path: Path) -> None:
    rows = [gsm8k(i, images=[]) for i in range(2)]
    table = datasets.Dataset.from_list(rows).cast_column(
        "images", datasets.Sequence(datasets.Image())
    )
    table.to_parquet(str(tmp_path / "x.parquet"))
    out = tmp_path / "out.parquet"
    wrap_parquet(tmp_path / "x.parquet", "math", out)
    read = datasets.load_dataset(
        "parquet", data_files=str(out), cache_dir=str(tmp_path / "cache"), split="train"
    )
    assert read.features["images"] == datasets.Sequence(datasets.Image()), "as verl reads it"
    assert read[0]["agent_name"] == "rltf"
    assert read[1]["extra_info"]["env"] == "math"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": [{"bytes": b"x"}]}, "the column images is not empty, .*: drop it"),
        ({"agent_name": "tool_agent"}, "agent_name with another agent loop"),
        ({"extra_info": {"task": "mine"}}, "has extra_info.task already"),
        ({"extra_info": "text"}, "extra_info is a string and no struct"),
        (
            {"reward_model": {"style": "rule", "ground_truth": None}},
            "row 0: reward_model.ground_truth is missing",
        ),
        ({"prompt": "text"}, "row 0: prompt is no list of chat messages"),
    ],
)
def test_refusals(change: dict, message: str, tmp_path: Path) -> None:
    source = write(tmp_path / "x.parquet", [gsm8k(0, **change)])
    with pytest.raises(ValueError, match=message):
        wrap_parquet(source, "math", tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(
    ("source", "env", "message"),
    [
        ("x", "binary_matrix", "--env binary_matrix: it has no method data_of, .*a class of yours"),
        ("nowhere", "math", r"nowhere\.parquet: no such file, seen from"),
        ("text", "math", "is not a parquet file"),
        ("out", "math", "is the source itself"),
        ("question", "math", "has no column data_source, prompt, reward_model"),
    ],
)
def test_files_and_environments_that_cannot_be_used(
    tmp_path: Path, source: str, env: str, message: str
) -> None:
    write(tmp_path / "x.parquet", [gsm8k(0)])
    write(tmp_path / "out.parquet", [gsm8k(0)])
    write(tmp_path / "question.parquet", [{"question": "?"}])
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(ValueError, match=message):
        wrap_parquet(tmp_path / f"{source}.parquet", env, tmp_path / "out.parquet")


@pytest.mark.parametrize("name", ["train.json", "train.jsonl"])
def test_json_as_verl_reads_it_becomes_parquet(tmp_path: Path, name: str) -> None:
    rows, source, out = [gsm8k(i) for i in range(3)], tmp_path / name, tmp_path / "out.parquet"
    lines = map(json.dumps, rows)
    source.write_text("\n".join(lines) if name.endswith("l") else json.dumps(rows))
    with pytest.raises(ValueError, match=rf"`rltf data wrap {source} --env .* --out .*train\.parq"):
        check_parquet(source)
    assert wrap_parquet(source, "reward_function", out) == 3
    check_parquet(out)
    for before, after in zip(rows, pq.read_table(out).to_pylist(), strict=True):
        extra = {k: v for k, v in after["extra_info"].items() if k in before["extra_info"]}
        assert {**after, "extra_info": extra} == {**before, "agent_name": "rltf"}
    source.write_text('{"a": 1')
    with pytest.raises(ValueError, match=rf"^FILE={source}: cannot be read \(.*line 1 is not JSON"):
        wrap_parquet(source, "reward_function", out)
