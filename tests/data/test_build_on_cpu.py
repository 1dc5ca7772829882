"""Datasets: what is written is what verl expects and what we read back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rltf_verl.data.build import build_parquet
from rltf_verl.data.provenance import read_provenance
from rltf_verl.data.schema import SCHEMA, check_parquet, problem_from_row, row_of
from rltf_verl.envs import make_env

ROW = row_of(make_env("binary_matrix").build(0, 1, 0).train[0], "Q", "train")


def test_rows_are_the_environment_s_problems(tmp_path: Path) -> None:
    paths = build_parquet("binary_matrix", tmp_path, 3, 20, 5, style="compact")
    env = make_env("binary_matrix", style="compact")
    splits = env.build(3, 20, 5)
    for path, split, problems in (
        (paths.train, "train", splits.train),
        (paths.test, "test", splits.test),
    ):
        check_parquet(path)
        rows = pq.read_table(path).to_pylist()
        assert (
            tuple(problem_from_row(row["extra_info"], row["reward_model"]) for row in rows)
            == problems
        )
        assert [row["prompt"] for row in rows] == [
            [{"role": "user", "content": env.prompt(p)}] for p in problems
        ]
        assert {(r["data_source"], r["agent_name"], r["extra_info"]["split"]) for r in rows} == {
            ("rltf/binary_matrix", "rltf", split)
        }


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    first, again, other = (
        build_parquet("binary_matrix", tmp_path / d, s, 9, 3)
        for d, s in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first.train.read_bytes() == again.train.read_bytes()
    assert first.test.read_bytes() == again.test.read_bytes()
    assert first.train.read_bytes() != other.train.read_bytes()
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["test.parquet", "train.parquet"]


def test_provenance(tmp_path: Path) -> None:
    path = build_parquet("binary_matrix", tmp_path, 7, 2, 1, n_max=4, mode="official").test
    provenance = read_provenance(path)
    assert (
        provenance["command"]
        == "rltf data build binary_matrix --seed=7 --num-train=2 --num-test=1 mode=official n_max=4"
    )
    assert (provenance["seed"], provenance["split"]) == (7, "test")
    assert provenance["versions"]["pyarrow"] == pa.__version__


def test_nothing_is_written_when_the_environment_refuses(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="num_test=9"):
        build_parquet("binary_matrix", tmp_path / "out", 0, 1, 9, n_min=2, n_max=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("extra_info", "reward_model", "message"),
    [
        ({"task": None}, {}, r"extra_info\.task is missing: .*rltf data build"),
        ({"task": "{"}, {}, r"extra_info\.task is not JSON .*rltf data build"),
        ({"task": 3.5}, {}, r"extra_info\.task is not JSON"),
        ({"task": "[]"}, {}, r"extra_info\.task is JSON, but a list"),
        ({"env": None}, {}, r"extra_info\.env is missing"),
        ({"index": None}, {}, r"extra_info\.index is missing"),
        ({}, {"ground_truth": None}, r"reward_model\.ground_truth is missing"),
    ],
)
def test_bad_row_names_the_field(extra_info: dict, reward_model: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        problem_from_row(
            {**ROW["extra_info"], **extra_info}, {**ROW["reward_model"], **reward_model}
        )


@pytest.mark.parametrize("column", [name for name in SCHEMA.names if name != "ability"])
def test_check_names_a_missing_column(tmp_path: Path, column: str) -> None:
    path = tmp_path / "train.parquet"
    pq.write_table(pa.Table.from_pylist([ROW], SCHEMA).drop_columns([column]), path)
    with pytest.raises(
        ValueError, match=rf"train\.parquet has no column {column}: .*rltf data build"
    ):
        check_parquet(path)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "has no rows"),
        ([{**ROW, "extra_info": None}], r"first row: extra_info\.task is missing"),
    ],
)
def test_check_refuses_other_files(tmp_path: Path, rows: list[dict], message: str) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    with pytest.raises(ValueError, match=message):
        check_parquet(path)
    assert read_provenance(path) == {}
