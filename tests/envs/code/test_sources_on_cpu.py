"""Rows in the shapes of APPS, TACO and LiveCodeBench, read from files by the real library."""

import base64
import json
import os
import pickle
import zlib
from pathlib import Path

import datasets
import pytest

from rltf_verl.envs.code.sources import (
    load_rows,
    read_row,
    split_tests,
    tasks_of,
)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def apps(question="Add.", tests=None, **fields):
    tests = tests or {"inputs": ["1 2\n", "3 4\n", "5 6\n"], "outputs": ["3\n", "7\n", "11\n"]}
    return {
        "problem_id": 1,
        "question": question,
        "solutions": json.dumps(["print 'two'", "\0", "(" * 10_000, "print(1)", "y"]),
        "input_output": json.dumps(tests),
        "difficulty": "interview",
        "url": "http://x",
        "starter_code": "",
        **fields,
    }


def packed(tests):
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def livecodebench(question="Double.", func=None, private=None, **fields):
    public = (
        [{"input": "[1, 2]\n3", "output": "[3]", "testtype": "functional"}]
        if func
        else [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]
    )
    private = private or [
        *public,
        {"input": "[4]\n5", "output": "null"} if func else {"input": "2", "output": "4"},
    ]
    return {
        "question_title": "T",
        "question_content": question,
        "platform": "leetcode",
        "question_id": "1",
        "contest_date": "2024-01-01",
        "starter_code": "class Solution:" if func else "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(public),
        "private_test_cases": packed(private),
        "metadata": json.dumps({"func_name": func} if func else {}),
        **fields,
    }


def listed(*pairs):
    return tuple({"input": given, "accept": accepted} for given, *accepted in pairs)


FUNCTIONS = {"fn_name": "f", "inputs": [[1], [[2]]], "outputs": [[5], "x"]}
READ = {
    "apps: programs": (
        apps(),
        (None, "", listed(("1 2\n", "3\n")), listed(("3 4\n", "7\n"), ("5 6\n", "11\n"))),
    ),
    "apps: functions with wrapped and bare values": (
        apps(tests=FUNCTIONS, starter_code="def f(a):"),
        ("f", "def f(a):", (), listed(([1], [5], 5), ([[2]], "x"))),
    ),
    "apps: wrapped functions that are lists": (
        apps(tests={**FUNCTIONS, "outputs": [[1, 2], [3]]}, starter_code="def f(a):"),
        ("f", "def f(a):", (), listed(([1], [1, 2]), ([[2]], [3]))),
    ),
    "taco: programs with lines as lists": (
        apps(
            input_output='{"inputs": [["1", "2"], ["3", "4"]], "outputs": [["3"], ["7"]]}',
            source="codechef",
            tags="[]",
            time_limit="2.0 seconds",
            memory_limit=None,
            name=None,
        ),
        (None, "", listed(("1\n2", "3")), listed(("3\n4", "7"))),
    ),
    "livecodebench: programs": (
        livecodebench(),
        (None, "", listed(("1\n", "2\n")), listed(("2", "4"))),
    ),
    "livecodebench: functions": (
        livecodebench(func="f"),
        ("f", "class Solution:", listed(([[1, 2], 3], [3])), listed(([[4], 5], None))),
    ),
    "livecodebench: tests that are not packed": (
        livecodebench(private_test_cases=json.dumps([{"input": "9", "output": "18"}])),
        (None, "", listed(("1\n", "2\n")), listed(("9", "18"))),
    ),
}


@pytest.mark.parametrize("case", READ)
def test_a_row_is_read(case):
    row, expected = READ[case]
    task = read_row(case.partition(":")[0], row, 0 if "wrapped" in case else 1)
    assert (task.entry, task.starter, task.public, task.private) == expected
    assert task.statement == row.get("question", "Double.")
    assert task.solution == ("print(1)" if "solutions" in row else "")


class Evil:
    def __reduce__(self):
        return os.mkdir, ("rltf-pickle-was-run",)


def test_a_pickle_of_anything_but_a_text_is_not_read(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    evil = base64.b64encode(zlib.compress(pickle.dumps(Evil()))).decode()
    assert read_row("livecodebench", livecodebench(private_test_cases=evil), 1) is None
    assert not Path("rltf-pickle-was-run").exists()


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "{}",
        "[",
        '{"inputs": [], "outputs": []}',
        '{"fn_name": "f", "inputs": [3], "outputs": [4]}',
    ],
)
def test_rows_without_tests_are_left_out(broken):
    assert read_row("apps", apps(input_output=broken), 1) is None


def test_a_missing_column_is_named():
    row = apps()
    del row["input_output"]
    with pytest.raises(
        ValueError,
        match=r"rltf.env.source=apps: the rows of rltf.env.path have no column 'input_out",
    ):
        read_row("apps", row, 1)


def test_public_are_the_tests_of_the_statement_or_the_first():
    pairs = listed(("1 2\n", "3"), ("3\n4", "7"), ("5 6", "11"))
    for between in ("Output", "-----Sample Output-----", "Sample Output 1:"):
        public, private = split_tests(f"Input\n3 4\n\n{between}\n7\n", pairs, 2)
        assert (public, private) == ((pairs[1],), (pairs[0], pairs[2]))
    assert split_tests("nothing", pairs, 2) == (pairs[:2], pairs[2:])
    assert split_tests("nothing", pairs, 9) == (pairs[:2], pairs[2:])
    assert split_tests("nothing", pairs, 0) == ((), pairs)
    # "1" stands in "100", and "YES" in the words: that is no example.
    words = "1 to 100. Print YES or NO.\nInput\n8\nOutput\nYES"
    pairs = listed(("1", "NO"), ("8", "YES"), ("100", "YES"))
    assert split_tests(words, pairs, 1) == ((pairs[1],), (pairs[0], pairs[2]))
    assert split_tests("1 2 3 4 5 6 7 11", pairs[:1], 2) == ((), pairs[:1])


@pytest.mark.parametrize("kind", ["json", "jsonl", "parquet"])
def test_files_are_loaded(tmp_path, kind):
    rows = [apps("A"), apps("B"), apps("A"), apps("C", input_output="")]
    path, table = str(tmp_path / f"rows.{kind}"), datasets.Dataset.from_list(rows)
    if kind == "parquet":
        table.to_parquet(path)
    else:
        table.to_json(path, lines=kind == "jsonl")
    tasks = tasks_of("apps", load_rows("rltf.env.path", path), 1)
    assert [task.statement for task in tasks] == ["A", "B"]


@pytest.mark.parametrize("key", ["rltf.env.path", "rltf.env.test_path"])
@pytest.mark.parametrize("name", ["nothing", "broken"])
def test_what_cannot_be_loaded_is_named(tmp_path, key, name):
    (tmp_path / "broken.jsonl").write_text("{")
    with pytest.raises(ValueError, match=rf"{key}='.*{name}.jsonl' cannot be loaded"):
        list(load_rows(key, str(tmp_path / f"{name}.jsonl")))
