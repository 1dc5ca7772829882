"""`rltf/env=own` as a run composes it, and what tells a user to take it."""

import re
from pathlib import Path
from typing import Any

import pytest

from rltf_verl.adapters.startup.budget import check_budget
from rltf_verl.adapters.startup.checks import parts_of, warnings_of
from rltf_verl.adapters.startup.files import check_dataset, check_datasets, resolve_files
from rltf_verl.config import ConfigError
from rltf_verl.envs import make_env
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.objectives import Method
from rltf_verl.tools.data.build import build_parquet
from tests.adapters.rollout.test_acting_policy_on_cpu import tokenizer_with_tools
from tests.support.configs import composed

DOCS = Path(__file__).parents[3] / "docs" / "environments.md"
OWN = DOCS.read_text("utf-8").partition("## Your own\n")[2].partition("\n## ")[0]
SNIPPETS = dict(re.findall(r"```(python|jinja)\n(.*?)```", OWN, re.DOTALL))
NAME, ADDED = "rltf.env.name=./mine.py:Mine", ("+rltf.env.factor=3",)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(SNIPPETS["python"])
    Path("mine.j2").write_text(SNIPPETS["jinja"])
    return build_parquet("./mine.py:Mine", "data", 0, 4, 2, factor=3).train


def run(*overrides: str, data: Path | None = None) -> Any:
    files = [] if data is None else [f"data.{split}_files={data}" for split in ("train", "val")]
    config = composed("rltf_sd", *files, *overrides, "data.train_batch_size=2")
    resolve_files(config)
    return config


def test_the_class_with_an_option_and_a_template(mine: Path) -> None:
    template = "rltf.episode.revise=./mine.j2"
    config = run("rltf/env=own", NAME, "+rltf.env.factor=3", template, data=mine)
    assert config.rltf.env.name == f"{Path.cwd()}/mine.py:Mine", "workers stand in other folders"
    parts = parts_of(config)
    assert parts.env.factor == 3
    assert list(check_datasets(config, parts.env)) == []


def test_options_that_the_data_were_made_with(mine: Path) -> None:
    forgot, knows = (run("rltf/env=own", NAME, *more, data=mine) for more in ((), ADDED))
    made_otherwise = [
        f for f in warnings_of(forgot, Method(parts_of(forgot).config)) if "made" in f.why
    ]
    assert [f.key for f in made_otherwise] == ["data.train_files", "data.val_files"]
    assert {f.fix for f in made_otherwise} == {f"add {ADDED[0]}"}
    assert not [f for f in warnings_of(knows, Method(parts_of(knows).config)) if "made" in f.why]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([NAME], "has no option 'mode'; known: factor. Add rltf/env=own"),
        (["rltf/env=own"], "rltf.env.name=???: name your class, e.g. rltf.env.name=./mine.py:Mine"),
        (["rltf/env=own", "rltf.env.name=./mine.py"], "name the class in it too, e.g. "),
    ],
)
def test_half_of_it_is_refused(mine: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parts_of(run(*overrides))


def test_an_explanation_that_raises_is_one_line_with_its_place(mine: Path) -> None:
    Path("raises.py").write_text(SNIPPETS["python"].replace("if not grade.format_ok", "if False"))
    name = "rltf.env.name=./raises.py:Mine"
    config = run("rltf/env=own", name, *ADDED, "rltf.feedback.level=hint", data=mine)
    message = (
        "rltf.env.name=.*raises.py:Mine: an empty answer to problem 0 raised ValueError: invalid"
        r" literal for int.* \(raises.py:\d+\); grade it wrong and explain it"
    )
    with pytest.raises(ConfigError, match=message):
        check_budget(config, parts_of(config), tokenizer_with_tools(), dry_run=DryRun())


def test_its_rows_with_another_environment(mine: Path) -> None:
    message = "made for the environment mine .*; add rltf/env=own rltf.env.name=./mine.py:Mine"
    with pytest.raises(ConfigError, match=message):
        check_dataset("data.train_files", str(mine), make_env("math"))
