"""Files that other programs read and nothing here runs: the containers'."""

import json
import re
import subprocess
from pathlib import Path

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
