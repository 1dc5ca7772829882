"""The documents name the experiments that there are, and the values that the configs have."""

import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.recipes.composing import RECIPES, composed
from tests.recipes.experiments import EXPERIMENTS, RECIPE, TASKS, parts
from tests.recipes.seeds import NAMES

DOCS = Path(__file__).parents[2] / "docs"
HYDRA = DOCS.parent / "hydra_configs" / "rltf_verl"
KEY = re.compile(r"`((?:rltf|data|trainer|actor_rollout_ref|judge)\.[a-z_.0-9]+)")
OF_OTHER_GROUPS = {"rltf.env.source", "rltf.feedback.critic"}
"""Keys of rltf/env=math and rltf/feedback=policy."""


def rows(text: str) -> list[list[str]]:
    lines = (line for line in text.splitlines() if line.startswith("|"))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_the_index_names_the_values_that_the_config_has() -> None:
    config = composed("rltf/kk_sd")
    index = (DOCS / "paper_index.md").read_text("utf-8")
    section = index.partition("## What all experiments share")[2].partition("\n## ")[0]
    table = [row for row in rows(section) if row[0].startswith("`")]
    assert len(table) > 15
    for key, value, source in table:
        written = OmegaConf.create(f"value: {value.strip('`')}").value
        assert OmegaConf.select(config, key.strip("`"), throw_on_missing=True) == written, key
        assert re.match(r"paper|release|ours|assumed", source), key


def test_the_readme_names_every_experiment() -> None:
    table = {row[0].strip("`"): row for row in rows((RECIPE / "README.md").read_text("utf-8"))}
    listed = {name: row for name, row in table.items() if parts(name)[0] in TASKS}
    assert set(listed) == EXPERIMENTS


@pytest.mark.parametrize("page", ["paper_index.md", "coming_from.md"])
def test_keys_and_groups_exist(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    for key in set(KEY.findall(text)) - OF_OTHER_GROUPS:
        parent, _, last = key.rpartition(".")
        assert last in OmegaConf.select(composed("rltf/kk_sd"), parent), key
    for group, option in re.findall(r"\brltf/(method|feedback|env)=([\w/]+)", text):
        file = HYDRA / "rltf" / group / f"{option}.yaml"
        assert option.endswith("/") or file.is_file(), option


@pytest.mark.parametrize("name", NAMES)
def test_a_readmes_keys_have_their_values(name: str) -> None:
    text = (RECIPES / name / "README.md").read_text("utf-8")
    table = re.findall(r"^\| `(\S+?)=(\S+?)` \|", text, re.MULTILINE)
    assert len(table) >= 4
    for key, value in table:
        written = OmegaConf.create(f"value: {value}").value
        assert OmegaConf.select(composed(name), key, throw_on_missing=True) == written, key
