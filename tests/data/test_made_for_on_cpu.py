"""A dataset names the environment that it was made for: one of a user's own too."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from rltf_verl.data.made_for import made_for
from rltf_verl.tools.evaluate.settings import questions_of
from tests.support.commands import ran

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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    ran("data", "build", "./mine.py:Mine", "factor=7", "--num-train=4", "--num-test=2")
    return tmp_path / "data"


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
