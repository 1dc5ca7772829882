"""Sources that are broken, builds that are killed, files that are there already."""

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rltf_verl.adapters.startup.files import check_dataset
from rltf_verl.config import ConfigError
from rltf_verl.data.provenance import read_provenance
from rltf_verl.data.schema import environments_of
from rltf_verl.envs import make_env
from rltf_verl.envs.code.sources import load_rows
from rltf_verl.envs.files import check_json, read_rows
from rltf_verl.envs.math.sources import SOURCES, find_source, read_items
from rltf_verl.tools.data.build import build_parquet
from rltf_verl.tools.data.check import check_files
from rltf_verl.tools.data.wrap import wrap_parquet
from tests.support.commands import ran, refused
from tests.support.verl_rows import verl_row, write_rows

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


def test_a_reference_that_is_a_list_is_refused(tmp_path):
    rows = [verl_row(truth=[1, 2], extra_info={"index": i}) for i in range(2)]
    source = write_rows(tmp_path / "source.parquet", rows)
    with pytest.raises(ValueError, match=r"row 0: reward_model\.ground_truth is a list .*one text"):
        wrap_parquet(source, "math", tmp_path / "out.parquet")


def test_the_check_finds_one_index_in_all_rows_of_another_programs_file(tmp_path):
    rows = [verl_row(extra_info={"index": i}) for i in range(2)]
    source, out = write_rows(tmp_path / "source.parquet", rows), tmp_path / "out.parquet"
    wrap_parquet(source, "math", out)
    rows = pq.read_table(out).to_pylist()
    for row in rows:
        row["extra_info"]["index"] = 7
    write_rows(out, rows)
    assert "extra_info.index is 7 in all rows" in " ".join(check_files([out]).errors)


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
        check_dataset("data.train_files", str(path), make_env("binary_matrix"))
    assert ("5, 6 (the first row is 0): drop" in str(e.value)) != parts


def test_what_is_no_dataset_is_told_by_the_check_that_knows_the_key(tmp_path):
    """`environments_of` is asked before it by `rltf adopt`."""
    path = build_parquet("binary_matrix", tmp_path, 0, 9, 1).train
    pq.write_table(pq.read_table(path).drop_columns(["extra_info"]), tmp_path / "no_info.parquet")
    (tmp_path / "cut.parquet").write_bytes(path.read_bytes()[:1000])
    text = [{**row, "extra_info": "{}"} for row in pq.read_table(path).to_pylist()]
    write_rows(tmp_path / "text.parquet", text)
    for name, said in {
        "no_info": "has no column extra_info: make the dataset with",
        "cut": "is not a parquet file (",
        "text": "the column extra_info is a string and no struct: ",
    }.items():
        file = str(tmp_path / f"{name}.parquet")
        assert environments_of(file) == set()
        with pytest.raises(ConfigError) as refused:
            check_dataset("data.train_files", file, make_env("binary_matrix"))
        assert str(refused.value).startswith(f"data.train_files: {file}")
        assert said in str(refused.value)
