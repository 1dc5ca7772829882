"""recipes/pretrained: its dialogues tell no house's rule, its config passes the checks, its script
is shell.
"""

import json
import os
import subprocess

import pytest
from omegaconf import OmegaConf

from tests.recipes import house_style
from tests.recipes.composing import RECIPES, composed, program, rltf_of

FOLDER = RECIPES / "pretrained"
SCRIPT = FOLDER / "pretrained.sh"


@pytest.mark.parametrize("family", ["date", "entries", "reply"])
def test_dialogues_teach_to_follow_an_example_and_no_houses_rule(family) -> None:
    rows = program("pretrained/dialogues.py").dialogues(family, 60, 0)
    dialogues = [row["messages"] for row in rows]
    assert [[m["role"] for m in messages] for messages in dialogues] == [["user", "assistant"]] * 60
    corrected = [
        messages for messages in dialogues if "Your earlier answer: " in messages[0]["content"]
    ]
    assert 30 < len(corrected) < 52
    houses = {
        problem.data["house"]
        for problem in house_style.make_house(num_houses=40).build(0, 200, 0).train
    }
    assert not [
        house for house in houses if any(house in messages[0]["content"] for messages in dialogues)
    ]


def test_the_trainer_takes_the_scripts_place_so_that_it_gets_its_signals(tmp_path) -> None:
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\necho $$ > "$OUT/pid"\n')
    python.chmod(0o755)
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "OUT": str(tmp_path), "PATH": path}
    script = subprocess.Popen([SCRIPT, "train", "sd"], env=environment)
    assert script.wait(60) == 0
    assert int((tmp_path / "pid").read_text()) == script.pid


@pytest.mark.parametrize("method", ["grpo_single", "grpo", "sd", "fm", "sd_fm", "sft", "raft"])
def test_a_method_composes_and_passes_the_checks(method) -> None:
    rltf = rltf_of("pretrained", f"rltf/method={method}")
    config = composed("pretrained", f"rltf/method={method}")
    assert rltf.env.name.endswith("recipes/pretrained/house_style.py:HouseStyle")
    assert rltf.feedback.provider.options["level"] == "hint"
    assert rltf.feedback.guard.action == "drop"
    assert rltf.distill.log_prob_floor is None
    assert bool(rltf.distill.enabled) == method.startswith("sd")
    assert config.actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype == "bf16"


def test_each_setting_of_the_law_composes_and_passes_the_checks() -> None:
    law = program("pretrained/law.py")
    settings = list(law.settings())
    assert len(set(settings)) == len(settings) >= 24
    for words in law.LEVELS.values():
        rltf = rltf_of("pretrained", *words, *law.WORDS)
        assert rltf.feedback.guard.action == "none"


def test_the_script_runs_what_it_says(start, tmp_path) -> None:
    def started(*words: str) -> tuple[int, str]:
        code, lines, _ = start(SCRIPT, *words, OUT=str(tmp_path / "o"), SEED="3")
        return code, "\n".join(lines)

    assert started("model") == (0, f"python3 {FOLDER}/fetch_model.py smollm2 {tmp_path}/o/smollm2")
    assert f"--out {tmp_path}/o/data_date_3 --seed 3" in started("data")[1]
    assert f"rltf data build {FOLDER}/house_style.py:HouseStyle --out" in started("data")[1]
    code, line_of_training = started("train", "grpo", "data.seed=1")
    assert code == 0
    assert f"rltf.seed=3 rltf.env.name={FOLDER}/house_style.py:HouseStyle" in line_of_training
    assert "rltf/method=grpo data.max_response_length=48 data.seed=1" in line_of_training
    assert line_of_training.endswith("data.seed=1")
    assert "rltf.imitate.weight=1.0" in started("train", "sft")[1]
    assert started("train")[0] == started()[0] == 2
    merged = f"merge.py {tmp_path}/o/smollm2 {FOLDER}/adapter_date {tmp_path}/o/warm_date"
    assert merged in started("warm_up")[1]
    assert os.access(SCRIPT, os.X_OK)


@pytest.mark.parametrize("family", ["date", "entries", "reply"])
def test_the_adapter_is_small_and_of_the_warm_ups_config(family) -> None:
    folder = FOLDER / f"adapter_{family}"
    adapter = json.loads((folder / "adapter_config.json").read_text())
    asked = OmegaConf.load(FOLDER / "config/warm_up.yaml").model
    assert (adapter["r"], adapter["lora_alpha"]) == (asked.lora_rank, asked.lora_alpha)
    assert set(adapter["target_modules"]) == set(asked.target_modules)
    assert (folder / "adapter_model.safetensors").stat().st_size < 2e6
