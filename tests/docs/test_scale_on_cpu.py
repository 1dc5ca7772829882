"""Every command of docs/scale.md composes, and passes what is checked before a run starts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from rltf_verl.adapters.startup.checks import check_config
from tests.support.configs import composed

TEXT = (Path(__file__).parents[2] / "docs" / "scale.md").read_text("utf-8")
COMMANDS = [
    " ".join(command.replace("\\\n", " ").split())
    for command in re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)
]


def config_of(command: str):
    words = [word for word in shlex.split(command) if not re.match(r"[A-Z_]+=", word)]
    assert words[:3] == ["python", "-m", "verl.trainer.main_ppo"]
    name, *overrides = words[3:]
    return composed(name.removeprefix("--config-name="), *overrides)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page(command: str) -> None:
    rltf = check_config(config_of(command))
    assert rltf.distill.enabled
