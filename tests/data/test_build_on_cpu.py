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

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rltf_verl.adapters.startup.checks import require
from rltf_verl.adapters.startup.files import check_dataset
from rltf_verl.config import ConfigError
from rltf_verl.data.provenance import read_provenance
from rltf_verl.data.schema import SCHEMA, check_parquet, environments_of, problem_from_row, row_of
from rltf_verl.envs import make_env
from rltf_verl.envs.code.sources import load_rows
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.envs.files import check_json, read_rows
from rltf_verl.envs.math.sources import SOURCES, find_source, read_items
from rltf_verl.tools.data.build import build_parquet
from rltf_verl.tools.data.check import check_files
from rltf_verl.tools.data.wrap import wrap_parquet
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


def test_nothing_that_is_there_changes(tmp_path: Path) -> None:
    rows = [gsm8k(i, difficulty=i / 2, tags=["a", None]) for i in range(5)]
    source, out = write_rows(tmp_path / "train.parquet", rows), tmp_path / "out" / "train.parquet"
    assert wrap_parquet(source, "math", out).num_rows == 5
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
    wrap_parquet(write_rows(tmp_path / "train.parquet", [gsm8k(i) for i in range(3)]), "math", out)
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
        ([{"index": f"9a9b-{i}"} for i in (1, 1, 2)], ["9a9b-1", "9a9b-1", "9a9b-2"]),
    ],
)
def test_an_index_is_added_where_there_is_none(
    given: list[dict | None], indices: list[Any], tmp_path: Path
) -> None:
    rows = [{**gsm8k(i), "extra_info": extra} for i, extra in enumerate(given)]
    if given[0] == {}:
        rows = [{key: value for key, value in row.items() if key != "extra_info"} for row in rows]
    out = tmp_path / "out.parquet"
    wrap_parquet(write_rows(tmp_path / "x.parquet", rows), "math", out)
    wrapped = pq.read_table(out).to_pylist()
    assert [row["extra_info"]["index"] for row in wrapped] == indices
    problems = [problem_from_row(row["extra_info"], row["reward_model"]) for row in wrapped]
    assert [problem.reference for problem in problems] == ["1", "2", "3"]


def test_what_datasets_wrote_of_columns_does_not_hide_the_new_ones(tmp_path: Path) -> None:
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
    assert (read[0]["agent_name"], read[1]["extra_info"]["env"]) == ("rltf", "math")


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
        (
            {"reward_model": {"style": "rule", "ground_truth": [1, 2]}},
            r"row 0: reward_model\.ground_truth is a list .*one text",
        ),
        ({"extra_info": {"index": float("inf")}}, r"row 0: extra_info\.index is inf"),
        ({"prompt": [{"role": "root", "content": "?"}]}, "row 0: a message has the role 'root'"),
        ({"prompt": "text"}, "row 0: a prompt is no list of .*'role': 'user', 'content': TEXT"),
    ],
)
def test_refusals(change: dict, message: str, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "x.parquet", [gsm8k(0, **change)])
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
    write_rows(tmp_path / "x.parquet", [gsm8k(0)])
    write_rows(tmp_path / "out.parquet", [gsm8k(0)])
    write_rows(tmp_path / "question.parquet", [{"question": "?"}])
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
    wrap_parquet(source, "reward_function", out)
    check_parquet(out)
    columns = ["data_source", "prompt", "ability", "reward_model"]
    read = pq.read_table(out, columns=columns).to_pylist()
    assert read == [{name: row[name] for name in columns} for row in rows]
    source.write_text('{"a": 1')
    with pytest.raises(ValueError, match=rf"^FILE={source}: cannot be read \(.*line 1 is not JSON"):
        wrap_parquet(source, "reward_function", out)


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


def test_an_empty_split_is_refused(tmp_path):
    pytest.importorskip("math_verify")
    path = tmp_path / "own.jsonl"
    path.write_text(
        "".join(json.dumps({"question": f"Q{i}", "answer": str(i)}) + "\n" for i in range(9))
    )
    with pytest.raises(ValueError, match=r"num_train=5: no problem is left for train\.parquet"):
        build_parquet("math", tmp_path / "out", 0, 5, 200, source=str(path))
    assert not (tmp_path / "out").exists()


def test_the_check_finds_one_index_in_all_rows_of_another_programs_file(tmp_path):
    info = {"index": 7, "env": "math", "task": "{}"}
    ours = [verl_row(agent_name="rltf", extra_info=info)] * 2
    (error,) = check_files([write_rows(tmp_path / "ours.parquet", ours)]).errors
    assert "extra_info.index is 7" in error
    source = write_rows(tmp_path / "theirs.parquet", [verl_row(extra_info={"index": 7})] * 2)
    with pytest.raises(ValueError, match="index is 7 in all rows"):
        wrap_parquet(source, "math", tmp_path / "out.parquet")


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
    rows = [{"question": "Q", "answer": "1", field: value}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
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
