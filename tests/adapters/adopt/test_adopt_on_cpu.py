"""Runs of verl become RLTF runs: what is printed composes, passes the start-up checks and says why
settings changed.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rltf_verl.adapters.adopt import adoption, checking, settings, sizes
from rltf_verl.adapters.adopt.adoption import Adopted, adopt
from rltf_verl.adapters.adopt.launch import of_script
from rltf_verl.adapters.adopt.text import script_of
from rltf_verl.adapters.startup import checks
from rltf_verl.adapters.startup.files import resolve_files
from rltf_verl.config import ConfigError
from tests.adapters.adopt.scripts import COMMON, REFUSED, SCRIPTS
from tests.e2e.runs import POLICY
from tests.support import configs

ENVIRON = {"HOME": "/home/u", "PWD": "/here", "DEVICE": "gpu"}
GRPO = f"python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo {COMMON}"


@pytest.fixture(autouse=True)
def cheap(request, monkeypatch):
    """Configs are composed once per choice of groups, but for the test of Hydra itself."""
    if "as_hydra" not in request.node.name:
        for module in (adoption, checking, settings, sizes):
            monkeypatch.setattr(
                module, "composed", lambda name, words: configs.composed(name, *words)
            )


def adopted(
    folder: Path, text: str, *added: str, feedback: str | None = None, **told: str
) -> Adopted:
    path = folder / "run.sh"
    path.write_text(text, "utf-8")
    return adopt(of_script(path, [], ENVIRON, told), "sd", feedback, added)


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_what_is_printed_composes_and_passes_the_checks(script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = adopted(tmp_path, script.text)
    printed = script_of(found, "run.sh")
    (tmp_path / "printed.sh").write_text(printed, "utf-8")
    again = of_script(tmp_path / "printed.sh", [], ENVIRON, {})
    assert again.config_name == "rltf"
    assert sorted(again.overrides) == sorted(found.overrides)
    for part in script.command:
        assert part in again.overrides
    said = "\n".join(line for line in printed.splitlines() if line.startswith("#"))
    for part in script.reasons:
        assert part in said
    if "custom_reward_function.path=reward.py" in again.overrides:
        Path("reward.py").write_text("def score(**_):\n    return 1.0\n", "utf-8")
    config = configs.composed("rltf", *again.overrides)
    resolve_files(config)
    checks.check_config(config)


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_adopted_is_one_line(case, tmp_path):
    text, told = case
    with pytest.raises(ValueError, match=re.escape(told)) as raised:
        adopted(tmp_path, text)
    assert "\n" not in str(raised.value)


def test_a_variable_that_a_program_sets_can_be_told(tmp_path):
    found = adopted(tmp_path, f"n=$(nvidia-smi -L | wc -l)\n{GRPO} trainer.nnodes=$n", n="2")
    assert "trainer.nnodes=2" in found.overrides


def test_feedback_and_further_overrides(tmp_path):
    with pytest.raises(ValueError, match=r"rltf.feedback.endpoint.base_url='\?\?\?'"):
        adopted(tmp_path, GRPO, feedback="judge")
    judge = "rltf.feedback.endpoint.base_url=http://h:8000/v1"
    found = adopted(tmp_path, GRPO, judge, "rltf.feedback.endpoint.model=m", feedback="judge")
    assert found.overrides[-2] == judge
    assert "rltf/feedback=judge" in found.overrides
    with pytest.raises(ConfigError, match=r"algorithm\.adv_estimator=grpo: the rltf trainers"):
        adopted(tmp_path, GRPO, "algorithm.adv_estimator=grpo")


def test_rows_of_an_environment_of_ours_keep_it(tmp_path):
    from rltf_verl.data.build import build_parquet

    paths = build_parquet("binary_matrix", tmp_path, seed=0, num_train=2, num_test=1)
    files = f"data.train_files={paths.train} data.val_files={paths.test}"
    found = adopted(tmp_path, f"{GRPO} {files}")
    assert "rltf/env=binary_matrix" in found.overrides


def test_rows_of_an_own_environment_name_its_class(tmp_path, monkeypatch):
    from rltf_verl.data.build import build_parquet

    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[3] / "docs/environments.md").read_text("utf-8")
    Path("mine.py").write_text(page.split("```python\n# mine.py")[1].split("```")[0], "utf-8")
    paths = build_parquet("./mine.py:Mine", tmp_path, seed=0, num_train=2, num_test=1, factor=3)
    files = f"data.train_files={paths.train} data.val_files={paths.test}"
    found = adopted(tmp_path, f"{GRPO} {files}")
    assert "rltf/env=own" in found.overrides
    assert "rltf.env.name=./mine.py:Mine" in found.overrides
    assert "+rltf.env.factor=3" in found.overrides
    moved = adopted(tmp_path, f"{GRPO} {files}", "rltf.env.name=./mine.py:Mine")
    assert "+rltf.env.factor=3" not in moved.overrides
    table = pq.read_table(paths.train).replace_schema_metadata(None)
    pq.write_table(table, paths.train)
    with pytest.raises(ConfigError, match=r"add rltf.env.name=./FILE.py:CLASS"):
        adopted(tmp_path, f"{GRPO} {files}")


def test_what_a_chosen_hardware_sets_is_left_to_it(tmp_path):
    script = f"{GRPO} actor_rollout_ref.model.use_remove_padding=True trainer.nnodes=2"
    found = adopted(tmp_path, script, "rltf/hardware=cpu")
    assert not [word for word in found.overrides if "rollout.name" in word or "padding" in word]
    assert "trainer.nnodes=2" in found.overrides
    assert "rollout.name=vllm dropped: rltf/hardware=cpu sets it" in "\n".join(found.changes)


def files_of_one_row(folder: Path) -> str:
    row = {
        "data_source": "openai/gsm8k",
        "prompt": [{"role": "user", "content": "1 + 1?"}],
        "reward_model": {"style": "rule", "ground_truth": "2"},
        "extra_info": {"split": "train", "index": 0},
    }
    pq.write_table(pa.Table.from_pylist([row]), folder / "rows.parquet")
    return f"data.train_files={folder}/rows.parquet data.val_files={folder}/rows.parquet"


def test_a_model_that_reads_too_little_is_told_beside_the_limit_that_the_prompts_need(tmp_path):
    script = (
        f"{GRPO} {files_of_one_row(tmp_path)} data.max_prompt_length=64 data.max_response_length=8"
        f" actor_rollout_ref.model.path={POLICY} actor_rollout_ref.actor.use_dynamic_bsz=True"
        " actor_rollout_ref.actor.ppo_max_token_len_per_gpu=100"
    )
    reads = "+actor_rollout_ref.model.override_config.max_position_embeddings=90"
    found = adopted(tmp_path, script, "rltf.episode.revise=note", reads)
    assert "data.max_prompt_length=72" in found.overrides
    first, second = [note for note in found.notes if note.startswith("a start would be refused")]
    assert "data.max_prompt_length=72: the revise prompt of template note needs" in first
    assert "that limit is refused too: data.max_prompt_length=" in second
    assert "reads 90" in second, "and not that a limit of tokens, which grows with it, is too low"


def test_what_a_cpu_refuses_is_dropped_and_prompts_get_room(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    script = (
        f"{GRPO} {files_of_one_row(tmp_path)} data.max_prompt_length=64 data.max_response_length=16"
        f" actor_rollout_ref.model.path={POLICY} actor_rollout_ref.actor.use_kl_loss=True"
        " actor_rollout_ref.rollout.tensor_model_parallel_size=2 trainer.logger=[console,nope]"
    )
    short = "rltf.episode.revise=note"
    found = adopted(tmp_path, script, "rltf/hardware=cpu", short, "data.max_response_length=8")
    said = "\n".join(found.changes)
    assert "tensor_model_parallel_size=2 dropped: does not divide" in said
    assert "use_kl_loss=True dropped: verl moves the reference model" in said
    (prompt,) = [line for line in found.changes if line.startswith("data.max_prompt_length=")]
    assert re.match(r"\S+=\d{3} \(was 64\): the revise prompt of template note needs", prompt)
    assert [w for w in found.overrides if w.startswith("data.max_re")] == [
        "data.max_response_length=8"
    ], "the user's value takes the place of the script's"
    assert found.checked == ["settings", "rows", "prompt lengths"]
    assert [note for note in found.notes if "refused: " in note] == [
        note for note in found.notes if "verl has no logger nope" in note
    ]
    kept = adopted(tmp_path, script, "rltf/hardware=cpu", short, "data.max_prompt_length=70")
    assert "data.max_prompt_length=70" in kept.overrides
    assert "a start would be refused: data.max_prompt_length=70" in "\n".join(kept.notes)


def test_a_config_of_ones_own_becomes_overrides(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "hydra:\n  searchpath: [file://verl/trainer/config]\n"
        "defaults: [ppo_trainer, _self_]\n"
        "algorithm: {adv_estimator: grpo}\n"
        "data: {train_batch_size: 64}\n"
        "actor_rollout_ref: {rollout: {name: vllm, n: 4}, actor: {ppo_mini_batch_size: 64}}\n"
    )
    command = f"python3 -m verl.trainer.main_ppo --config-path={tmp_path} --config-name=mine"
    found = adopted(tmp_path, f"{command} data.train_batch_size=128")
    assert "actor_rollout_ref.rollout.n=4" in found.overrides
    assert "data.train_batch_size=128" in found.overrides
    assert "rltf.updates_per_batch=2" in found.overrides


def test_as_hydra_composes_it(tmp_path):
    found = adopted(tmp_path, SCRIPTS["Megatron"].text)
    checks.check_config(settings.composed("rltf", found.overrides))
    with pytest.raises(ConfigError, match="Could not find 'rltf/feedback/jugde'"):
        adopted(tmp_path, GRPO, feedback="jugde")


def test_the_printed_script_is_what_bash_would_run(tmp_path):
    printed = script_of(adopted(tmp_path, SCRIPTS["GRPO, 7B, FSDP"].text), "run.sh")
    command = printed[printed.index("${RUN") :].replace("\\\n", " ")
    words = shlex.split(command)
    assert words[2:4] == ["verl.trainer.main_ppo}", "--config-name=rltf"]
    assert words[-1] == "$@"
