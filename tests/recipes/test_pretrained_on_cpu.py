"""recipes/pretrained: its dialogues tell no house's rule, its config passes the checks, its script is shell."""

import importlib.util
import os
import subprocess

import pytest

from rltf_verl.envs import make_env
from rltf_verl.envs.house_style.conventions import KINDS
from tests.recipes.composing import RECIPES, composed, rltf_of

FOLDER = RECIPES / "pretrained"
SCRIPT = FOLDER / "pretrained.sh"


def dialogues_of(family: str, num: int) -> list[list[dict[str, str]]]:
    spec = importlib.util.spec_from_file_location("pretrained_dialogues", FOLDER / "dialogues.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [row["messages"] for row in module.dialogues(family, num, 0)]


@pytest.mark.parametrize("family", ["date", "entries", "reply"])
def test_dialogues_teach_to_follow_an_example_and_no_houses_rule(family) -> None:
    dialogues = dialogues_of(family, 60)
    assert [[m["role"] for m in messages] for messages in dialogues] == [["user", "assistant"]] * 60
    corrected = [messages for messages in dialogues if "Your earlier answer: " in messages[0]["content"]]
    assert 20 < len(corrected) < 40
    houses = {problem.data["house"] for problem in make_env("house_style", num_houses=40).build(0, 200, 0).train}
    assert not [house for house in houses if any(house in messages[0]["content"] for messages in dialogues)]


def test_no_dialogue_answers_as_a_house_would() -> None:
    rules = KINDS["date"].rules("house")
    for problem in make_env("house_style", conventions="practice", num_houses=60).build(0, 60, 0).train:
        assert problem.reference not in {KINDS["date"].written(problem.data["item"], rule) for rule in rules}


@pytest.mark.parametrize("method", ["grpo_single", "grpo", "sd", "fm", "sd_fm", "sft"])
def test_a_method_composes_and_passes_the_checks(method) -> None:
    rltf = rltf_of("pretrained", f"rltf/method={method}")
    config = composed("pretrained", f"rltf/method={method}")
    assert (rltf.env.name, rltf.feedback.provider.options["level"]) == ("house_style", "hint")
    assert rltf.feedback.guard.action == "drop"
    assert rltf.distill.log_prob_floor is None
    assert bool(rltf.distill.enabled) == method.startswith("sd")
    assert config.actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype == "bf16"


def test_the_script_runs_what_it_says(tmp_path) -> None:
    for name in ("python3", "rltf", "torchrun"):
        (tmp_path / name).write_text(f'#!/bin/bash\necho "{name} $*"\n')
        (tmp_path / name).chmod(0o755)
    other = ("MODEL", "OUT", "FAMILY", "SEED")
    kept = {key: value for key, value in os.environ.items() if key not in other}
    variables = {**kept, "PATH": f"{tmp_path}:{os.environ['PATH']}", "OUT": str(tmp_path / "o"), "SEED": "3"}

    def started(*words: str) -> tuple[int, str]:
        ended = subprocess.run(["bash", str(SCRIPT), *words], env=variables, capture_output=True, text=True)
        return ended.returncode, ended.stdout + ended.stderr

    assert started("model") == (0, f"rltf model smollm2 {tmp_path}/o/smollm2\n")
    assert f"--out {tmp_path}/o/data_date_3 --seed 3" in started("data")[1]
    code, said = started("train", "grpo", "data.seed=1")
    assert code == 0
    assert "rltf/method=grpo rltf.seed=3" in said
    assert "distill.weight" not in said
    assert "rltf.distill.weight=1.0" in started("train", "sd")[1]
    assert said.endswith("data.seed=1\n")
    assert started("train")[0] == started()[0] == 2
    assert os.access(SCRIPT, os.X_OK)
