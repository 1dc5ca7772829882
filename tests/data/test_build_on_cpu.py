"""Datasets, built or wrapped: what is written is what verl expects and what we read back; of other
people's datasets nothing else changes. Sources that are broken, builds that are killed, files that
are there already."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rltf_verl.adapters.startup.checks import require
from rltf_verl.adapters.startup.files import check_dataset
from rltf_verl.config import ConfigError
from rltf_verl.data.provenance import read_provenance
from rltf_verl.data.schema import (
    SCHEMA,
    check_parquet,
    environments_of,
    problem_from_row,
    problem_of,
    row_of,
)
from rltf_verl.envs import make_env
from rltf_verl.envs.code.sources import load_rows
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.envs.files import check_json, read_rows
from rltf_verl.envs.math.sources import SOURCES, find_source, read_items
from rltf_verl.jsonl import append_lines
from rltf_verl.tools.data.build import build_parquet
from rltf_verl.tools.data.check import check_files
from tests.support.commands import ran, refused
from tests.support.verl_rows import verl_row, write_rows

ROW = row_of(make_env("binary_matrix").build(0, 1, 0).train[0], "Q", "train")


def test_rows_are_the_environment_s_problems(tmp_path: Path) -> None:
    paths = build_parquet("binary_matrix", tmp_path, 3, 20, 5, style="compact")
    env = make_env("binary_matrix", style="compact")
    splits = env.build(3, 20, 5)
    for path, split, problems in (
        (paths.train, "train", splits.train),
        (paths.test, "test", splits.test),
    ):
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


@pytest.mark.parametrize(
    ("rows", "missing", "message"),
    [
        *(
            ([ROW], [name], rf"x\.parquet has no column {name}: .*rltf data build")
            for name in SCHEMA.names
            if name != "ability"
        ),
        ([], [], "has no rows"),
        ([{**ROW, "extra_info": None}], [], r"first row: extra_info\.task is missing"),
    ],
)
def test_check_refuses_other_files(
    tmp_path: Path, rows: list[dict], missing: list[str], message: str
) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA).drop_columns(missing), path)
    with pytest.raises(ValueError, match=message):
        check_parquet(path)
    assert read_provenance(path) == {}


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


def test_an_environment_takes_rows_in_verls_form(tmp_path: Path) -> None:
    env = make_env("math")
    source = write_rows(tmp_path / "train.parquet", [gsm8k(i) for i in range(3)])
    assert check_parquet(source, env).index == 0
    problem = problem_of(env, pq.read_table(source).to_pylist()[2])
    assert (problem.env, problem.index, problem.reference) == ("math", 20, "3")
    assert env.grade(problem, "\\boxed{3}").correct
    assert env.worked_solution(problem) == "It is 2+1.\n#### 3"
    assert problem.data["subset"] == "openai/gsm8k"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": [{"bytes": b"x"}]}, "the column images is not empty, .*: drop it"),
        ({"extra_info": "text"}, "extra_info is a string and no struct"),
        (
            {"reward_model": {"style": "rule", "ground_truth": [1, 2]}},
            r"first row: reward_model\.ground_truth is a list .*one text",
        ),
        ({"extra_info": {"index": float("inf")}}, r"first row: extra_info\.index is inf"),
        ({"prompt": "text"}, "row 0: a prompt is no list of .*'role': 'user', 'content': TEXT"),
    ],
)
def test_rows_that_it_cannot_take(change: dict, message: str, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "x.parquet", [gsm8k(0, **change)])
    with pytest.raises(ValueError, match=message):
        check_parquet(source, make_env("math"))


@pytest.mark.parametrize("name", ["train.json", "train.jsonl"])
def test_what_json_needs_is_said_and_makes_it_parquet(tmp_path: Path, name: str) -> None:
    rows, source = [gsm8k(i) for i in range(3)], tmp_path / name
    lines = map(json.dumps, rows)
    source.write_text("\n".join(lines) if name.endswith("l") else json.dumps(rows))
    with pytest.raises(ValueError, match="is JSON, and parquet is read here") as refused:
        check_parquet(source)
    code = str(refused.value).partition('-c "')[2].partition('"')[0]
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert check_parquet(tmp_path / "train.parquet", make_env("math")).reference == "1"
    assert pq.read_table(tmp_path / "train.parquet").to_pylist() == rows


KILLED = """
import os, signal, sys
from pathlib import Path
from rltf_verl.tools.data.build import build_parquet
moves = 0
def counted(name):
    real = getattr(Path, name)
    def move(*arguments, **options):
        global moves
        if moves == int(sys.argv[2]): os.kill(os.getpid(), signal.SIGKILL)
        moves += 1
        return real(*arguments, **options)
    setattr(Path, name, move)
for name in ("replace", "rename", "unlink"): counted(name)
build_parquet("binary_matrix", sys.argv[1], 2, 5, 5)
"""


def seeds(folder: Path) -> list[int | None]:
    return [
        read_provenance(path)["seed"] if (path := folder / name).exists() else None
        for name in ("train.parquet", "test.parquet")
    ]


@pytest.mark.nightly
def test_a_build_that_is_killed_leaves_no_mixture_and_the_next_one_cleans_up(tmp_path):
    """Killed before each of its steps in the file system in turn."""
    seen = []
    for step in itertools.count():
        folder = tmp_path / str(step)
        build_parquet("binary_matrix", folder, 1, 5, 5)
        done = subprocess.run(
            [sys.executable, "-c", KILLED, folder, str(step)], check=False, env=os.environ
        )
        seen.append(seeds(folder))
        assert seen[-1] in ([1, 1], [None, 1], [None, 2], [2, 2])
        build_parquet("binary_matrix", folder, 3, 5, 5)
        assert sorted(path.name for path in folder.iterdir()) == ["test.parquet", "train.parquet"]
        assert seeds(folder) == [3, 3]
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert (seen[0], seen[-1]) == ([1, 1], [2, 2])
    assert len(seen) > 3


def test_what_is_there_is_not_replaced_without_a_word(tmp_path):
    build = ("data", "build", "binary_matrix", "--num-train", 3, "--num-test", 1, "--out", tmp_path)
    ran(*build)
    assert "--overwrite" in refused(*build, "--seed", 1)
    assert seeds(tmp_path) == [0, 0]
    ran(*build, "--seed", 1, "--overwrite")
    assert seeds(tmp_path) == [1, 1]


MINE = """
from rltf_verl.envs.base import Env, Splits
from rltf_verl.types import Problem

class Mine(Env):
    name = "mine"

    def build(self, seed, num_train, num_test):
        return {build}

    def prompt(self, problem):
        return {prompt}
"""


@pytest.mark.parametrize(
    ("build", "prompt", "message"),
    [
        ("Splits([Problem('mine', 0, {}, 3)], [])", "'?'", "reference must be a text, not int"),
        ("{}['seed']", "'?'", r"mine\.py:Mine: KeyError: 'seed' \(mine\.py:9\)"),
        ("Splits([Problem('mine', 0, {}, '3')], [])", "1 / 0", r"ZeroDivision.*mine\.py:12\)"),
        ("Splits([Problem('mine', 0, {1: {2}}, '3')], [])", "'?'", "TypeError: .*not JSON"),
    ],
)
def test_an_error_in_a_class_of_ones_own_is_one_line(tmp_path, build, prompt, message):
    path = tmp_path / "mine.py"
    path.write_text(MINE.format(build=build, prompt=prompt))
    with pytest.raises(ValueError, match=message):
        build_parquet(f"{path}:Mine", tmp_path / "out", 0, 1, 0)
    assert not (tmp_path / "out").exists()


def test_an_empty_split_is_refused(tmp_path):
    pytest.importorskip("math_verify")
    path = tmp_path / "own.jsonl"
    append_lines(path, [{"question": f"Q{i}", "answer": str(i)} for i in range(9)])
    with pytest.raises(ValueError, match=r"num_train=5: no problem is left for train\.parquet"):
        build_parquet("math", tmp_path / "out", 0, 5, 200, source=str(path))
    assert not (tmp_path / "out").exists()


def test_the_check_finds_one_index_in_all_rows_of_another_programs_file(tmp_path):
    info = {"index": 7, "env": "math", "task": "{}"}
    ours = verl_row(agent_name="rltf", extra_info=info)
    for row in (ours, verl_row(extra_info={"index": 7})):
        file = write_rows(tmp_path / "x.parquet", [row] * 2)
        assert "extra_info.index is 7 in all rows" in " ".join(check_files([file]).errors)


BROKEN = {
    b'{"a": 1}\n{"a": "\xff"}\n': "line 2 is not JSON .'utf-8' codec",
    b'{"a": 1}\n\n{"a": ': "line 3 is not JSON",
    b'{"a": 1}\n' + b"[" * 100_000: "line 2 is not JSON",
    b'{"a": 1}\n3\n': "line 2 is no JSON object",
}


@pytest.mark.parametrize("content", BROKEN)
def test_a_broken_line_is_named(content, tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    source, file = find_source("rltf.env.source", str(path), SOURCES, ("question", "answer"))
    for read in (
        lambda: check_json(path),
        lambda: next(read_rows("rltf.env.path", str(path))),
        lambda: next(load_rows("rltf.env.path", str(path))),
        lambda: next(read_items("rltf.env.source", str(path), source, file, None)),
    ):
        with pytest.raises(ValueError, match=BROKEN[content]):
            read()


@pytest.mark.parametrize("field", ["question", "answer"])
@pytest.mark.parametrize("value", ["", "  ", {"text": "x"}, [1, 2]])
def test_questions_and_answers_are_text(field, value, tmp_path):
    path = tmp_path / "own.jsonl"
    append_lines(path, [{"question": "Q", "answer": "1", field: value}])
    source, file = find_source("rltf.env.source", str(path), SOURCES, ("question", "answer"))
    with pytest.raises(ValueError, match=rf"row 1: {field}=.* must be text"):
        list(read_items("rltf.env.source", str(path), source, file, None))


def chat(*contents):
    return [{"role": "user", "content": content} for content in contents]


@pytest.mark.parametrize("parts", [False, True])
def test_empty_prompts_are_named_wherever_they_are(tmp_path, parts):
    """In the usual column by pyarrow, in any other one by one."""
    path = build_parquet("binary_matrix", tmp_path, 0, 9, 1).train
    rows = pq.read_table(path).to_pylist()
    bad = [[], None, chat("a", ""), *([] if parts else [chat("a", None), chat(None, "a")])]
    for i, prompt in enumerate(bad):
        rows[i + 2]["prompt"] = prompt
    if parts:
        for message in (m for row in rows for m in row["prompt"] or ()):
            message["name"] = "x"
    write_rows(path, rows)
    with pytest.raises(
        ValueError, match=r"train\.parquet: the prompt is empty in row 2, 3, 4"
    ) as e:
        require(check_dataset("data.train_files", str(path), make_env("binary_matrix"), DryRun()))
    assert ("5, 6 (the first row is 0): drop" in str(e.value)) != parts


def test_what_is_no_dataset_is_told_by_the_check_that_knows_the_key(tmp_path):
    """`environments_of` is asked before it by `rltf adopt`."""
    path = build_parquet("binary_matrix", tmp_path, 0, 9, 1).train
    pq.write_table(pq.read_table(path).drop_columns(["extra_info"]), tmp_path / "no_info.parquet")
    (tmp_path / "cut.parquet").write_bytes(path.read_bytes()[:1000])
    text = [{**row, "extra_info": "{}"} for row in pq.read_table(path).to_pylist()]
    write_rows(tmp_path / "text.parquet", text)
    for name in ("no_info", "cut", "text"):
        file = str(tmp_path / f"{name}.parquet")
        assert environments_of(file) == set()
        with pytest.raises(ConfigError, match=f"^data.train_files: {file}"):
            require(check_dataset("data.train_files", file, make_env("binary_matrix"), DryRun()))
