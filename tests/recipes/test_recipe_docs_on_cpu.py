"""docs/paper_index.md and docs/migration.md say what the configs hold."""

import re
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tests.recipes.experiments import EXPERIMENTS, SCRIPTS, TASKS, parts

DOCS = Path(__file__).parents[2] / "docs"
HYDRA = DOCS.parent / "hydra_configs" / "rltf_verl"
KEY = re.compile(r"`((?:rltf|data|trainer|actor_rollout_ref|judge)\.[a-z_.0-9]+)")
OF_OTHER_GROUPS = {"rltf.env.source", "rltf.feedback.critic"}
"""Keys of rltf/env=math and rltf/feedback=policy."""


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]


def test_the_index_names_the_values_that_the_config_has(composed) -> None:
    config = composed("kk_sd")
    section = (DOCS / "paper_index.md").read_text("utf-8").partition("## What all experiments share")[2]
    table = [row for row in rows(section.partition("\n## ")[0]) if row[0].startswith("`")]
    assert len(table) > 30
    for key, value, source in table:
        said = OmegaConf.create(f"value: {value.strip('`')}").value
        found = OmegaConf.select(config, key.strip("`"), throw_on_missing=True)
        assert said == found, key
        assert re.match(r"paper|release|ours|assumed", source), key


def test_the_index_names_every_kind_of_experiment() -> None:
    text = (DOCS / "paper_index.md").read_text("utf-8").partition("## What all")[0]
    named = set(re.findall(r"`((?:kk|dapo)_\w+)`", text))
    named |= {f"{task}_{method}" for method in re.findall(r"`<task>_(\w+)`", text) for task in TASKS}
    assert named == EXPERIMENTS


@pytest.mark.parametrize("page", ["paper_index.md", "migration.md"])
def test_keys_and_groups_exist(page, composed) -> None:
    text = (DOCS / page).read_text("utf-8")
    for key in set(KEY.findall(text)) - OF_OTHER_GROUPS:
        parent, _, last = key.rpartition(".")
        assert last in OmegaConf.select(composed("kk_sd"), parent), key
    for group, option in re.findall(r"\brltf/(method|feedback|env)=([\w/]+)", text):
        assert option.endswith("/") or (HYDRA / "rltf" / group / f"{option}.yaml").is_file(), option


def test_the_guide_leads_every_script_to_its_config() -> None:
    text = (DOCS / "migration.md").read_text("utf-8")
    lead = dict(re.findall(r"`(\w+)_\*` is `(\w+)_\*`", text))
    theirs = ("knights_knaves", "binary_matrix", "shortest_path", "dapo", "deepmath")
    assert {lead.get(task, task) for task in theirs} == {parts(name)[0] for name in SCRIPTS}
