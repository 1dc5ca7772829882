"""wandb takes the view."""

import json

import pytest

from tests.recipes.composing import program

SCRIPT = program("wandb/workspace.py")


def test_the_view_has_them_all() -> None:
    pytest.importorskip("wandb_workspaces")
    made = json.loads(SCRIPT.workspace("me", "project")._to_model().model_dump_json())
    sections = made["spec"]["section"]["panel_bank_config"]["sections"]
    assert [section["name"] for section in sections] == list(SCRIPT.SECTIONS)
