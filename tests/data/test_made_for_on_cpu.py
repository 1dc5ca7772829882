"""A dataset names the environment that it was made for: one of a user's own too."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from rltf_verl.data.made_for import DatasetOrigin, forgotten_options, made_for
from rltf_verl.tools.evaluate.settings import questions_of
from tests.support.commands import ran, refused
from tests.support.verl_rows import verl_row, write_rows

MINE = """
from rltf_verl.envs.base import Splits
from rltf_verl.types import Grade, Problem


class Mine:
    name = "mine"

    def __init__(self, factor: int = 2):
        self.factor = factor

    def build(self, seed, num_train, num_test):
        numbers = range(num_train + num_test)
        made = [Problem("mine", i, {"n": i}, str(self.factor * i)) for i in numbers]
        return Splits(tuple(made[:num_train]), tuple(made[num_train:]))

    def prompt(self, problem):
        return f"{self.factor} times {problem.data['n']}?"

    def grade(self, problem, text):
        return Grade(text == problem.reference, text.isdecimal(), text)

    def explain(self, problem, text, grade, level):
        return f"It is no multiple of {self.factor}."
"""
REWARD = "def compute_score(data_source, solution_str, ground_truth, extra_info): return 0.0"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    ran("data", "build", "./mine.py:Mine", "factor=7", "--num-train=4", "--num-test=2")
    return tmp_path / "data"


def test_its_class_and_its_options(folder: Path) -> None:
    found = made_for(folder / "train.parquet", "mine")
    assert found == DatasetOrigin("./mine.py:Mine", {"factor": 7})
    assert found.overrides == "rltf/env=own rltf.env.name=./mine.py:Mine"
    assert made_for(folder / "train.parquet", "math") == DatasetOrigin("math")


def test_a_file_that_is_gone_or_elsewhere(folder: Path) -> None:
    moved = folder / "moved.py"
    shutil.move("mine.py", moved)
    data = folder / "train.parquet"
    with pytest.raises(ValueError, match=r"add env\.name=path/to/mine\.py:Mine"):
        questions_of(data, 1, {}, None)
    _, env = questions_of(data, 1, {"env": {"name": f"{moved}:Mine"}}, None)
    assert env["factor"] == 7, "the same class, moved: its options stay"


def test_a_file_that_another_program_wrote_again(folder: Path) -> None:
    data = folder / "again.parquet"
    pd.read_parquet(folder / "train.parquet").to_parquet(data)
    with pytest.raises(ValueError, match="the environment mine "):
        questions_of(data, 1, {}, None)
    assert "rltf.env.name=./FILE.py:CLASS" in made_for(data, "mine").overrides


def test_options_that_a_run_was_not_told(folder: Path) -> None:
    data = folder / "train.parquet"
    assert forgotten_options(data, "/elsewhere/mine.py:Mine", {}) == "+rltf.env.factor=7"
    assert forgotten_options(data, "./mine.py:Mine", {"factor": 7}) == ""
    assert forgotten_options(data, "math", {}) == ""


def test_rows_in_verls_form_are_asked_with_their_reward_function(tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text(REWARD)
    data = write_rows(tmp_path / "verl.parquet", [verl_row(), verl_row()])
    function = {"name": "reward_function", "function": f"{tmp_path}/reward.py:compute_score"}
    questions, env = questions_of(data, 1, {"env": function}, None)
    assert env == {"name": "reward_function"}
    assert questions[0].problem.data["data_source"] == "mine/sums"
    with pytest.raises(ValueError, match="has no column agent_name"):
        questions_of(data, 1, {}, None)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("check mine.py", "name the class in it too, e.g. mine.py:Mine"),
        ("check ./mine.py:Yours", "./mine.py has no 'Yours'; known: Mine"),
        ("check ./mine.py:Mine mode=x", "has no option 'mode'; known: factor. Add rltf/env=own"),
        ("check ???", "rltf.env.name=???: name your class"),
    ],
)
def test_a_class_that_cannot_be_made(folder: Path, words: str, told: str) -> None:
    assert told in refused("env", *words.split())
