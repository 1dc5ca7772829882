"""Runs of verl become RLTF runs: what is printed composes, passes the start-up checks and explains
the settings that change.
"""

import os
import re
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import verl.trainer.main_ppo  # noqa: F401  # before a test names the CPU platform
from datasets import Dataset

from rltf_verl.adapters.startup import checks
from rltf_verl.adapters.startup.files import resolve_files
from rltf_verl.config import ConfigError
from rltf_verl.registry import load
from rltf_verl.tools.adopt import adoption, checked
from rltf_verl.tools.adopt.adoption import adopt
from rltf_verl.tools.adopt.command import Adopted, script_of
from rltf_verl.tools.adopt.script import read_launch
from rltf_verl.tools.compose import overrides
from rltf_verl.tools.compose.runs import compose_run
from rltf_verl.tools.data.build import build_parquet
from tests.e2e.runs import POLICY
from tests.support import configs
from tests.support.verl_rows import verl_row, write_rows
from tests.tools.adopt.scripts import COMMON, REFUSED, SCRIPTS

ENVIRON = {"HOME": "/home/u", "DEVICE": "gpu"}
MAIN = "python3 -m verl.trainer.main_ppo"
LINE_END = "\\\n"
GRPO = f"{MAIN} algorithm.adv_estimator=grpo {COMMON}"


@pytest.fixture(autouse=True)
def cheap(request, monkeypatch):
    """Configs are composed once per choice of groups, but for the test of Hydra itself."""
    if "as_hydra" not in request.node.name:
        for module in (adoption, checked, overrides):
            monkeypatch.setattr(
                module, "compose_run", lambda name, words: configs.composed(name, *words)
            )


def adopted(folder: Path, text: str, *added: str, feedback: str | None = None) -> Adopted:
    path = folder / "run.sh"
    path.write_text(f"{text.removesuffix(LINE_END)} {' '.join(added)}", "utf-8")
    return adopt(read_launch([str(path)], ENVIRON), "sd", feedback)


def started(folder: Path, script: str) -> list[str]:
    """The words with which bash starts python."""
    for name in ("python3", "python"):
        (folder / name).write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n", "utf-8")
        (folder / name).chmod(0o755)
    environ = {**ENVIRON, "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True)
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_what_is_printed_composes_and_passes_the_checks(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = script_of(adopted(tmp_path, script.text))
    words = started(tmp_path, printed)
    assert words[:3] == [*MAIN.split()[1:], "--config-name=rltf"]
    assert set(script.command) <= set(words)
    comments = "\n".join(line for line in printed.splitlines() if line.startswith("#"))
    assert not [part for part in script.reasons if part not in comments]
    if "custom_reward_function.path=reward.py" in words:
        Path("reward.py").write_text("def score(**_):\n    return 1.0\n", "utf-8")
    config = configs.composed("rltf", *words[3:])
    resolve_files(config)
    checks.checked_parts(config)


def test_another_main_is_refused_with_the_mode_of_main_ppo(tmp_path):
    main = "verl.experimental.fully_async_policy.fully_async_main"
    with pytest.raises(ConfigError, match=rf"^{main}: .*trainer_mode=separate_async$"):
        adopted(tmp_path, f"python3 -m {main} {COMMON}")


@pytest.mark.parametrize(("start", "words"), REFUSED.items())
def test_what_cannot_be_adopted_is_one_line(start, words, tmp_path):
    with pytest.raises(ConfigError, match=f"^{re.escape(start)}") as raised:
        adopted(tmp_path, f"{MAIN} actor_rollout_ref.rollout.name=vllm {words}")
    assert "\n" not in str(raised.value)


SECRET = "s3cr3tWord99"
RUNTIME_ENV = "+ray_kwargs.ray_init.runtime_env"
SECRETS = {
    "export WANDB_API_KEY=VALUE\n": "WANDB_API_KEY",
    "export DB_PASS=VALUE\n": "DB_PASS",
    "export GOOGLE_CREDENTIALS=VALUE\n": "GOOGLE_CREDENTIALS",
    "export BASIC_AUTH=VALUE\n": "BASIC_AUTH",
    "export MY_SESSION=VALUE\n": "MY_SESSION",
    "export HTTPS_PROXY=http://me:VALUE@h:80\n": "HTTPS_PROXY",
    'export OPTIONS=\'{"api_key": "VALUE"}\'\n': "OPTIONS",
    "export MY_TOKEN=${NONE:-VALUE}\n": "MY_TOKEN",
    "eval 'export HF_TOKEN=VALUE'\n": "HF_TOKEN",
    "WANDB_API_KEY=VALUE ": "WANDB_API_KEY",
    "env WANDB_API_KEY=VALUE ": "WANDB_API_KEY",
    f"MAIN {RUNTIME_ENV}.env_vars.WANDB_API_KEY=VALUE": "WANDB_API_KEY",
    f"MAIN '{RUNTIME_ENV}={{env_vars:{{HF_TOKEN:VALUE}}}}'": "RAY_KWARGS_RAY_INIT_RUNTIME_ENV",
    "MAIN WANDB_API_KEY=VALUE": "",
    "MAIN data.train_files=https://me:VALUE@h/train.parquet": "DATA_TRAIN_FILES",
}
"""Part of a script with a secret -> the variable in its place; none where it is dropped."""


@pytest.mark.parametrize(("text", "variable"), SECRETS.items())
def test_no_secret_is_printed(text, variable, tmp_path):
    text = text.replace("VALUE", SECRET).replace("MAIN", GRPO.removesuffix("\\\n"))
    printed = script_of(adopted(tmp_path, text if GRPO[:40] in text else f"{text}{GRPO}"))
    assert SECRET not in printed
    assert f"{{{variable}:?" in printed or not variable


def test_feedback_and_further_overrides(tmp_path):
    judge = "rltf.feedback.endpoint.base_url=http://h:8000/v1"
    run = adopted(tmp_path, GRPO, judge, "rltf.feedback.endpoint.model=m", feedback="judge")
    assert run.overrides[-2] == judge
    assert "rltf/feedback=judge" in run.overrides


def test_rows_name_their_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[3] / "docs/environments.md").read_text("utf-8")
    Path("mine.py").write_text(page.split("```python\n# mine.py")[1].split("```")[0], "utf-8")
    ours = build_parquet("binary_matrix", tmp_path / "ours", seed=0, num_train=2, num_test=1)
    run = adopted(tmp_path, f"{GRPO} data.train_files={ours.train} data.val_files={ours.test}")
    assert "rltf/env=binary_matrix" in run.overrides
    mine = build_parquet("./mine.py:Mine", tmp_path, seed=0, num_train=2, num_test=1, factor=3)
    script = f"{GRPO} data.train_files={mine.train} data.val_files={mine.test}"
    wanted = {"rltf/env=own", "rltf.env.name=./mine.py:Mine", "+rltf.env.factor=3"}
    assert wanted <= set(adopted(tmp_path, script).overrides)
    moved = adopted(tmp_path, script, "rltf.env.name=./mine.py:Mine")
    assert "+rltf.env.factor=3" not in moved.overrides


def test_what_a_chosen_hardware_sets_is_one_comment(tmp_path):
    script = f"{GRPO} actor_rollout_ref.model.use_remove_padding=True trainer.nnodes=2"
    run = adopted(tmp_path, script, "rltf/hardware=cpu_bf16")
    assert not [word for word in run.overrides if "rollout.name" in word or "padding" in word]
    assert "trainer.nnodes=2" in run.overrides
    (change,) = (line for line in run.changes if "hardware" in line)
    assert re.match(r".*name=vllm .*use_remove_padding=True dropped: .*=cpu_bf16", change)


def test_what_a_cpu_refuses_is_dropped(tmp_path):
    rows = write_rows(tmp_path / "rows.parquet", [verl_row(data_source="openai/gsm8k")])
    script = (
        f"{GRPO} data.train_files={rows} data.val_files={rows}"
        " data.max_prompt_length=64 data.max_response_length=16"
        f" actor_rollout_ref.model.path={POLICY} actor_rollout_ref.actor.use_kl_loss=True"
        " actor_rollout_ref.rollout.tensor_model_parallel_size=2"
    )
    run = adopted(tmp_path, script, "rltf/hardware=cpu")
    changes = "\n".join(run.changes)
    assert "tensor_model_parallel_size=2 dropped: " in changes
    assert "use_kl_loss=True dropped: " in changes
    assert not [line for line in run.notes if "not on this machine" in line]


def test_a_config_of_ones_own_becomes_overrides(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "hydra:\n  searchpath: [file://verl/trainer/config]\n"
        "defaults: [ppo_trainer, _self_]\n"
        "algorithm: {adv_estimator: grpo}\n"
        "data: {train_batch_size: 64}\n"
        "actor_rollout_ref: {rollout: {name: vllm, n: 4}, actor: {ppo_mini_batch_size: 64}}\n"
    )
    command = f"{MAIN} --config-path={tmp_path} --config-name=mine"
    run = adopted(tmp_path, f"{command} data.train_batch_size=128")
    assert {
        "actor_rollout_ref.rollout.n=4",
        "data.train_batch_size=128",
        "rltf.updates_per_batch=2",
    } <= set(run.overrides)


def test_as_hydra_composes_it(tmp_path):
    run = adopted(tmp_path, SCRIPTS["Megatron"].text)
    checks.checked_parts(compose_run("rltf", run.overrides))
    with pytest.raises(ConfigError, match="did you mean judge"):
        adopted(tmp_path, GRPO, feedback="jugde")


@pytest.mark.parametrize(("batch", "size", "updates"), [(64, 64, []), (64, 256, []), (64, 16, [4])])
def test_mini_batches_become_updates(batch, size, updates, tmp_path):
    sizes = f"data.train_batch_size={batch} actor_rollout_ref.actor.ppo_mini_batch_size={size}"
    words = adopted(tmp_path, f"{GRPO} {sizes}").overrides
    assert not [word for word in words if "ppo_mini_batch_size" in word]
    key = "rltf.updates_per_batch="
    assert [int(word.removeprefix(key)) for word in words if word.startswith(key)] == updates


def test_the_last_of_the_words_for_a_key_counts(tmp_path):
    sizes = " ".join(f"data.train_batch_size={size}" for size in (64, 128, 64))
    words = adopted(tmp_path, f"{MAIN} algorithm.adv_estimator=grpo {sizes} {COMMON}").overrides
    assert [word for word in words if "batch_size" in word] == ["data.train_batch_size=64"]


OTHERS = (
    (Path(__file__).parents[3] / "docs" / "coming_from.md")
    .read_text("utf-8")
    .partition("\n## verl's interactions")[2]
)


def test_the_functions_for_other_projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    interaction, _, trl = re.findall(r"```py\n(.*?)```", OTHERS, re.S)
    Path("gsm8k.py").write_text(interaction, "utf-8")
    score = load("the page", "./gsm8k.py:compute_score")
    assert (score("mine", "4", "4")["feedback"], score("mine", "3", "4")["acc"]) == ("", 0)
    example = {"prompt": [{"role": "user", "content": "2+2"}], "solution": "4"}
    names = {
        "reward_func": lambda answers, solution: [float(answers[0][0]["content"] == solution[0])],
        "dataset": Dataset.from_list([{**example, "privileged_context": "Add."}]),
    }
    exec(trl, names)  # noqa: S102
    (row,) = pq.read_table("train.parquet").to_pylist()
    assert row["prompt"] == example["prompt"]
    truth = row["reward_model"]["ground_truth"]
    graded = [names["compute_score"]("mine", text, truth, row["extra_info"]) for text in "45"]
    assert [(one["acc"], one["feedback"]) for one in graded] == [(1.0, "Add."), (0.0, "Add.")]
