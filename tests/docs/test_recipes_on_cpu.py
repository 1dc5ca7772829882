"""The documents name the experiments that there are, the values that the configs have, and commands
that pass what is checked before a run starts.
"""

import re
import shlex
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rltf_verl.adapters.startup.checks import checked_parts
from rltf_verl.adapters.startup.files import resolve_files
from tests.recipes.composing import RECIPES, composed
from tests.recipes.seeds import NAMES
from tests.support import configs

DOCS = Path(__file__).parents[2] / "docs"
HYDRA = DOCS.parent / "hydra_configs" / "rltf_verl"
KEY = re.compile(r"`((?:rltf|data|trainer|actor_rollout_ref|judge)\.[a-z_.0-9]+)")
OF_OTHER_GROUPS = {"rltf.env.correct_from", "rltf.env.source", "rltf.feedback.critic"}
"""Keys of other environments, and of rltf/feedback=policy."""


@pytest.mark.parametrize(
    "page", ["recipes/rltf/SOURCES.md", "docs/coming_from.md", "docs/troubleshooting.md"]
)
def test_keys_and_groups_exist(page: str) -> None:
    text = (DOCS.parent / page).read_text("utf-8")
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


TEXT = "".join((DOCS / page).read_text("utf-8") for page in ("scale.md", "coming_from.md"))
COMMANDS = [
    " ".join(command.replace("\\\n", " ").split())
    for command in re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)
    if "--config-name=" in command
]


def config_of(command: str):
    words = [word for word in shlex.split(command) if not re.match(r"[A-Z_]+=", word)]
    assert words[:3] == ["python", "-m", "verl.trainer.main_ppo"]
    name, *overrides = words[3:]
    return configs.composed(name.removeprefix("--config-name="), *overrides)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    Path("reward.py").write_text(code[0], "utf-8")
    found = config_of(command)
    resolve_files(found)
    config = checked_parts(found).config
    assert config.distill.enabled or config.teaches
