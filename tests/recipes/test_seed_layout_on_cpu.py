"""What the recipes of other methods have in common: folders, twins, scripts, and what their READMEs say."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rltf_verl.adapters.startup.checks import check_config
from rltf_verl.adapters.startup.presets import load_presets
from rltf_verl.config import Scheduled
from tests.recipes.seeds import NAMES, RECIPES, composed

PRESETS = {"sdpo": "rltf_sd_logit"}
"""Recipes whose preset has another name than `rltf_<recipe>`."""

MAY_DIFFER = {"sdpo": {"attempt"}}
"""Blocks in which a recipe differs from its preset on purpose."""


@pytest.fixture(scope="module")
def presets():
    return {preset.name: preset.rltf for preset in load_presets()}


@pytest.mark.parametrize("name", NAMES)
def test_it_is_its_preset_with_data_and_a_model(name, presets) -> None:
    rltf, preset = check_config(composed(name)), presets[PRESETS.get(name, f"rltf_{name}")]
    for block in ("attempt", "distill", "imitate", "feedback_modeling", "critique", "logit_distill", "reward", "gamma"):
        if block not in MAY_DIFFER.get(name, ()):
            assert getattr(rltf, block) == getattr(preset, block), block
    assert (rltf.episode.horizon, rltf.episode.context) == (preset.episode.horizon, preset.episode.context)
    assert rltf.feedback.ask == preset.feedback.ask


@pytest.mark.parametrize("name", NAMES)
def test_its_cpu_twin_is_the_same_method(name) -> None:
    config = composed(name, f"+cpu={name}")
    twin, real = check_config(config), check_config(composed(name))
    for block in ("attempt", "distill", "imitate", "critique", "logit_distill", "reward", "gamma", "feedback"):
        assert getattr(twin, block) == getattr(real, block), block
    assert (twin.env.name, twin.episode.horizon) == (real.env.name, real.episode.horizon)
    assert (config.trainer.device, config.trainer.total_training_steps) == ("cpu", 2)
    assert config.data.max_prompt_length + config.data.max_response_length <= 512, "positions of the tiny policy"
    for file in OmegaConf.to_container(config.twin.data).values():
        assert not str(file).endswith(".jsonl") or (RECIPES / name / file).is_file()


@pytest.mark.parametrize("name", NAMES)
def test_rows_fit_into_a_micro_batch(name) -> None:
    config = composed(name)
    actor = config.actor_rollout_ref.actor
    assert actor.ppo_max_token_len_per_gpu >= config.data.max_prompt_length + config.data.max_response_length


@pytest.mark.parametrize("name", NAMES)
def test_the_script_starts_its_config_and_what_the_user_says_comes_last(name, tmp_path) -> None:
    program = tmp_path / "python3"
    program.write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    script = RECIPES / name / "run_1gpu.sh"
    assert os.access(script, os.X_OK)

    def started(*told: str, **variables: str) -> tuple[int, list[str]]:
        kept = {k: v for k, v in os.environ.items() if k not in ("MODEL", "ROLLOUT", "OUT")}
        env = {**kept, "PATH": f"{tmp_path}:{os.environ['PATH']}", **variables}
        ended = subprocess.run(["bash", str(script), *told], env=env, cwd=tmp_path, capture_output=True, text=True)
        return ended.returncode, ended.stdout.splitlines()

    code, words = started("trainer.test_freq=-1", MODEL="my model", ROLLOUT="sglang")
    assert (code, words[:2], words[-1]) == (0, ["-m", "verl.trainer.main_ppo"], "trainer.test_freq=-1")
    assert words[words.index("--config-name") + 1] == name
    assert Path(words[words.index("--config-dir") + 1]) == RECIPES / name / "config"
    assert {"actor_rollout_ref.model.path=my model", "actor_rollout_ref.rollout.name=sglang"} <= set(words)
    assert not [word for word in started()[1] if word.startswith("actor_rollout_ref.model.path")]
    assert started(ROLLOUT="hf") == (2, [])


@pytest.mark.parametrize("name", NAMES)
def test_the_readme_names_commands_that_exist_and_keys_with_their_values(name) -> None:
    text = (RECIPES / name / "README.md").read_text("utf-8")
    assert "## Required verl version" in text
    assert "REQUIRED_VERL.txt" in text
    assert f"--config-dir recipes/{name}/config --config-name {name}" in text
    assert f"python recipes/cpu_twins.py --only '{name}/*'" in text
    config = composed(name)
    table = re.findall(r"^\| `(\S+?)=(\S+?)` \|", text, re.MULTILINE)
    assert len(table) >= 4, "what is the paper's and what is ours, key by key"
    for key, value in table:
        said = OmegaConf.create(f"value: {value}").value
        assert OmegaConf.select(config, key, throw_on_missing=True) == said, key


@pytest.mark.parametrize("name", NAMES)
def test_what_is_required_is_what_the_package_requires(name) -> None:
    lines = (RECIPES / name / "REQUIRED_VERL.txt").read_text("utf-8").splitlines()
    told = dict(line.split("=", 1) for line in lines if line[0] != "#")
    assert {"UPSTREAM", "MODE", "VERL_VERSION", "PIP_INSTALL", "NOTES", "REFRESH"} <= set(told)
    assert "verl[verl-core]>=0.9.1,<0.10" in told["PIP_INSTALL"]
    assert "verl[verl-core]>=0.9.1,<0.10" in (RECIPES.parent / "setup.py").read_text("utf-8")


def test_objectives_that_are_compared_are_all_there_are(presets) -> None:
    compared = {"distill", "imitate", "feedback_modeling", "critique", "logit_distill"}
    some = next(iter(presets.values()))
    assert {name for name in vars(some) if isinstance(getattr(some, name), Scheduled)} == compared


def test_the_scripts_are_one_script_so_that_each_folder_can_be_copied_alone() -> None:
    texts = {(RECIPES / name / "run_1gpu.sh").read_text().replace(name, "NAME") for name in NAMES}
    assert len(texts) == 1
