"""Files that other programs read and nothing here runs: the containers', the issue forms."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]


def test_the_dev_container_is_a_stage_of_the_cpu_image() -> None:
    file = ROOT / ".devcontainer" / "devcontainer.json"
    settings = json.loads(file.read_text("utf-8"))
    build = settings["build"]
    assert (file.parent / build["context"]).resolve() == ROOT
    dockerfile = (file.parent / build["dockerfile"]).read_text("utf-8")
    stages = re.findall(r"^FROM \S+ AS (\w+)$", dockerfile, re.MULTILINE)
    assert build["target"] in stages
    assert f" {settings['remoteUser']}\n" in dockerfile.partition("\n\n# The dev container")[0]
    goal = settings["postCreateCommand"].removeprefix("make ")
    plan = subprocess.run(["make", "-n", goal], cwd=ROOT, capture_output=True, text=True)
    assert plan.returncode == 0, plan.stderr


def test_an_image_holds_nothing_that_git_ignores() -> None:
    """Else somebody's environment of gigabytes, or outputs, end in it."""
    ignored = set((ROOT / ".gitignore").read_text("utf-8").split())
    kept_out = set((ROOT / ".dockerignore").read_text("utf-8").split())
    missing = {
        name for name in ignored if not {name.rstrip("/"), f"**/{name.rstrip('/')}"} & kept_out
    }
    assert not missing
    assert ".git" in kept_out, "a checkout's history"


FIELDS = {"markdown", "textarea", "input", "dropdown", "checkboxes", "upload"}


@pytest.mark.parametrize("name", ["bug", "results"])
def test_an_issue_form_is_one_that_the_host_shows(name: str) -> None:
    """The form schema's required keys; a form that breaks it is left out in silence."""
    file = ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml"
    form = yaml.safe_load(file.read_text("utf-8"))
    assert form.keys() <= {"name", "description", "title", "labels", "body"}
    assert all(isinstance(form[key], str) and form[key] for key in ("name", "description"))
    assert {item["type"] for item in form["body"]} <= FIELDS
    asked = [item for item in form["body"] if item["type"] != "markdown"]
    labels = [item["attributes"]["label"] for item in asked]
    ids = [item["id"] for item in asked]
    assert len(set(labels)) == len(set(ids)) == len(asked) >= 3
    assert all(re.fullmatch(r"[\w-]+", name) for name in ids)
    assert all(item["attributes"]["value"] for item in form["body"] if item not in asked)
    for item in form["body"]:
        assert item.keys() <= {"type", "id", "attributes", "validations"}
    required = {item["id"] for item in asked if item.get("validations", {}).get("required")}
    assert {"command", "doctor"} <= required
