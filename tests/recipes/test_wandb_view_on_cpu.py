"""The wandb view shows metrics that exist."""

import json
import re
from pathlib import Path

import pytest

from tests.recipes.composing import program

ROOT = Path(__file__).parents[2]
VERLS = {"actor/entropy", "actor/grad_norm", "timing_s/step"}


SCRIPT = program("wandb/workspace.py")


def test_every_panel_is_of_a_metric_that_is_explained() -> None:
    docs = (ROOT / "docs" / "metrics.md").read_text("utf-8") + (
        ROOT / "docs" / "feedback.md"
    ).read_text("utf-8")
    patterns = [
        p for panels in SCRIPT.SECTIONS.values() for _, patterns_of in panels for p in patterns_of
    ]
    assert len(patterns) > 25
    for pattern in set(patterns) - VERLS:
        name = re.sub(r"/mean@.*|\.\*$", "", pattern)
        last = re.sub(r"_k$", "", re.sub(r"\\d\+", "k", name).rpartition("/")[2])
        assert re.search(rf"`[^`]*{re.escape(last.split('k_s')[0])}[^`]*`", docs), pattern


def test_the_view_has_them_all() -> None:
    pytest.importorskip("wandb_workspaces")
    made = json.loads(SCRIPT.workspace("me", "project")._to_model().model_dump_json())
    sections = made["spec"]["section"]["panel_bank_config"]["sections"]
    assert [section["name"] for section in sections] == list(SCRIPT.SECTIONS)
