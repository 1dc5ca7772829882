"""What people get wrong: each is refused before Ray in one line that says what to change, or warned
of by `rltf plan`. None reaches a worker.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig

from rltf_verl.adapters.hook import refused_by_verl
from rltf_verl.adapters.startup import machine
from rltf_verl.config import ConfigError
from rltf_verl.envs.dry_run import DryRun
from rltf_verl.envs.pool.pool import CallFailed, Pool
from rltf_verl.tools.compose.runs import compose_run
from rltf_verl.tools.plan.advice import RULES
from rltf_verl.tools.plan.build import make_plan
from rltf_verl.tools.plan.inputs import inspect_run
from tests.support.effort import NIGHTLY
from tests.support.plan_runs import pretend, rows
from tests.support.refused import refusals
from tests.support.verl_rows import write_rows

UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
ACTOR, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))


def test_a_run_without_a_mistake_is_not_refused(run: Callable[..., DictConfig]) -> None:
    config = run()
    assert [*refusals(config), *refused_by_verl(config)] == []
    assert make_plan(inspect_run(config), 3).warnings == []


def test_without_vllm_verl_checks_all_but_its_rank_of_lora(
    run: Callable[..., DictConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rltf_verl.adapters.hook.find_spec", lambda _: None)
    lora = f"{MODEL}.lora_rank=32"
    assert list(refused_by_verl(run("rltf/hardware=gpu"))) == []
    sampled = (f"{ROLLOUT}.temperature=0", f"{ROLLOUT}.val_kwargs.do_sample=true")
    found = refused_by_verl(run("rltf/hardware=gpu", lora, *sampled))
    assert [finding.level for finding in found] == ["warning", "error"]
    pretend(monkeypatch, "cuda")
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    inputs = inspect_run(run("rltf/hardware=gpu", lora), card=80)
    assert inputs.refusals == []
    assert f"{ROLLOUT}.name" in {finding.key for finding in inputs.warnings}


def test_a_config_of_ones_own_folder_that_names_a_search_path() -> None:
    folder = Path(__file__).parents[3] / "recipes" / "rltf" / "config"
    config = compose_run("paper", ["task=kk", "method=sd"], folder=folder)
    assert (config.rltf.env.name, config.trainer.experiment_name) == ("knights_knaves", "kk_sd")


COMPOSED = {
    "rltf/method=spdo": ("rltf/method", "did you mean teacher/sdpo?"),
    "rltf/method=rltf_sd": ("rltf/method", "did you mean sd?"),
    "rltf/env=gsm8k": ("rltf/env", "binary_matrix, code"),
    "rltf/env=./mine.py:Mine": ("rltf/env", "rltf/env=own rltf.env.name=./mine.py:Mine"),
    "rltf/methd=sd": ("rltf/methd", "did you mean rltf/method?"),
    "rltf.distill.loss.gamma=0.2": ("rltf.distill.loss.gamma", "{name: NAME, gamma: 0.2}"),
    "rltf.method=grpo": ("rltf.method", "write rltf/method=grpo"),
    "rltf.distil.weight=0.2": ("rltf.distil.weight", "rltf.distill.weight"),
    "distill.weight=0.2": ("distill.weight", "rltf.distill.weight"),
    "rltf.episode.gamma=0.5": ("rltf.episode.gamma", "rltf.gamma"),
    "rltf.distill.classes=action": ("rltf.distill.classes", "rltf.token_classes"),
    "rltf.distill.start_step=9": ("rltf.distill.start_step", "rltf.schedule.start_step"),
    "model.path=x": ("model.path", "actor_rollout_ref.model.path"),
    "data.max_prompt_len=4": ("data.max_prompt_len", "data.max_prompt_length"),
}


@pytest.mark.parametrize("word", COMPOSED)
def test_a_command_that_cannot_be_composed_names_what_was_meant(word: str) -> None:
    key, fix = COMPOSED[word]
    with pytest.raises(ConfigError) as refused:
        compose_run("rltf", [word])
    assert refused.value.finding.key == key
    assert fix in refused.value.finding.fix


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("rltf_sdd", "rltf.gamma=0.1"),
        ("ppo_trainer", "rltf/hardware=cpu"),
        *(("rltf", word) for word in ("rltf.env=[]", "rltf.teacher=[]", "rltf.episode=[]")),
        *(("rltf", word) for word in ("--rltf.gamma=1", "trainer.logger=a,b", "x=~/y")),
    ],
)
def test_every_other_one_is_one_line(name: str, word: str) -> None:
    with pytest.raises(ConfigError) as refused:
        compose_run(name, [word])
    line = str(refused.value)
    assert name in line or word in line
    assert "\n" not in line


REFUSED: dict[str, tuple[list[str], str, str]] = {
    "misspelt key with +": (["+rltf.distil.weight=1"], "rltf.distil", "rltf.distill"),
    "negative weight": (["rltf.distill.weight=-1"], "rltf.distill.weight", "switches"),
    "one turn for SD": (["rltf.episode.horizon=1"], "rltf.episode.horizon", "distill"),
    "GRPO with groups of one": (
        ["rltf/method=grpo", "actor_rollout_ref.rollout.n=1"],
        "actor_rollout_ref.rollout.n",
        "rltf.attempt.estimator",
    ),
    "SD against its siblings with groups of one": (
        ["rltf.distill.baseline=leave_one_out", "actor_rollout_ref.rollout.n=1"],
        "actor_rollout_ref.rollout.n",
        "rltf.attempt.estimator",
    ),
    "a gate that scales advantages with groups of one": (
        ["rltf/method=teacher/rlsd", "actor_rollout_ref.rollout.n=1"],
        "actor_rollout_ref.rollout.n",
        "rltf.attempt.estimator",
    ),
    "a gate that scales advantages without weight": (
        ["rltf/method=teacher/rlsd", "rltf.attempt.weight=0"],
        "rltf.attempt.weight",
        "objective",
    ),
    "guard off and the answer told": (
        ["rltf.feedback.level=full", "rltf.feedback.guard.action=none"],
        "",
        "rltf.feedback.provider",
    ),
    "template that is not there": (["rltf.episode.revise=./again.j2"], "", "again.j2"),
    "judge without endpoint": (["rltf/feedback=judge"], "rltf.feedback.endpoint.base_url", "must"),
    "judge without key": (
        [
            "rltf/feedback=judge",
            "rltf.feedback.endpoint.base_url=http://127.0.0.1:9/v1",
            "rltf.feedback.endpoint.model=m",
            "rltf.feedback.endpoint.api_key_env=NO_SUCH_KEY",
        ],
        "rltf.feedback.endpoint.api_key_env",
        "environment",
    ),
    "judge's style misspelt": (
        [
            "rltf/feedback=judge",
            "rltf.feedback.endpoint.base_url=http://127.0.0.1:9/v1",
            "rltf.feedback.endpoint.model=m",
            "rltf.feedback.style=hnit",
        ],
        "rltf.feedback.style",
        "known",
    ),
    "reward function misspelt": (
        ["custom_reward_function.name=score"],
        "",
        "custom_reward_function.path",
    ),
    "reward file that is not there": (
        ["custom_reward_function.path=rewards.py"],
        "custom_reward_function.path",
        "such",
    ),
    "reward function that raises": (["custom_reward_function.name=broken"], "", "answer_type"),
    "own environment's file misspelt": (
        [
            "rltf/env=binary_matrix",
            "custom_reward_function.path=null",
            "~rltf.env",
            "+rltf.env.name=./mime.py:Mine",
        ],
        "rltf.env.name",
        "FileNotFoundError",
    ),
    "own environment's class misspelt": (
        [
            "rltf/env=binary_matrix",
            "custom_reward_function.path=null",
            "~rltf.env",
            "+rltf.env.name=./mine.py:Mien",
        ],
        "rltf.env.name",
        "known",
    ),
    "own objective whose rows raise": (
        ["+rltf.objectives.own=./objectives.py:NoRows"],
        "",
        "AttributeError",
    ),
    "own objective of another class": (
        ["+rltf.objectives.own=./objectives.py:first_prompt_row"],
        "rltf.objectives.own",
        "extends",
    ),
    "own objective whose loss raises": (
        ["+rltf.objectives.own=./objectives.py:NoLoss"],
        "",
        "AttributeError",
    ),
    "no training file": (["data.train_files=null"], "data.train_files", "named"),
    "missing parquet": (["data.train_files=trian.parquet"], "data.train_files", "such"),
    "empty parquet": (["data.val_files=empty.parquet"], "", "rows"),
    "no parquet": (["data.val_files=train.csv"], "", "parquet"),
    "a last row without an answer": (["data.train_files=late.parquet"], "", "row 11"),
    "verl's parquet for an environment that needs ours": (
        ["rltf/env=binary_matrix", "custom_reward_function.path=null"],
        "",
        "train.parquet",
    ),
    "data of another environment": (
        ["data.train_files=matrix/train.parquet"],
        "data.train_files",
        "extra_info.env",
    ),
    "more problems a batch than rows": (
        ["data.train_batch_size=32"],
        "data.train_batch_size",
        "training",
    ),
    "no model named": (
        ["actor_rollout_ref.model.path=null"],
        "actor_rollout_ref.model.path",
        "named",
    ),
    "model folder misspelt": (
        ["actor_rollout_ref.model.path=./modle"],
        "actor_rollout_ref.model.path",
        "folder",
    ),
    "model that the hub does not have": (
        ["actor_rollout_ref.model.path=nobody/has-this"],
        "actor_rollout_ref.model.path",
        "Hugging",
    ),
    "verl's default model": (
        ["actor_rollout_ref.model.path='~/models/deepseek-llm-7b-chat'"],
        "actor_rollout_ref.model.path",
        "folder",
    ),
    "home folder as ~": (
        ["actor_rollout_ref.model.path='~/model'"],
        "actor_rollout_ref.model.path",
        "expand",
    ),
    "folder without a model": (
        ["actor_rollout_ref.model.path=nothing"],
        "actor_rollout_ref.model.path",
        "config.json",
    ),
    "model without weights": (
        ["actor_rollout_ref.model.path=bare"],
        "actor_rollout_ref.model.path",
        "weights",
    ),
    "model without tokenizer": (
        ["actor_rollout_ref.model.path=mute"],
        "actor_rollout_ref.model.path",
        "cannot",
    ),
    "tokenizer without chat template": (
        ["actor_rollout_ref.model.path=untold"],
        "actor_rollout_ref.model.path",
        "tokenizer",
    ),
    "role that the chat template does not know": (
        ["actor_rollout_ref.model.path=strict", "data.train_files=odd.parquet"],
        "",
        "actor_rollout_ref.model.custom_chat_template",
    ),
    "model whose layers see a part": (
        ["actor_rollout_ref.model.path=window"],
        "actor_rollout_ref.model.path",
        "rollout.name",
    ),
    "model that reads too little": (
        ["actor_rollout_ref.model.path=short"],
        "data.max_prompt_length",
        "together",
    ),
    "prompts over the limit": (["data.max_prompt_length=40"], "data.max_prompt_length", "problem"),
    "second prompts over the limit": (
        ["data.max_prompt_length=200"],
        "data.max_prompt_length",
        "template",
    ),
    "logger that is not installed": (["trainer.logger=[swanlab]"], "trainer.logger", "installed"),
    "logger misspelt": (["trainer.logger=[wandbb]"], "trainer.logger", "verl"),
    "folder that cannot be written": (
        ["trainer.default_local_dir=reward.py/runs"],
        "rltf.episode_log.dir",
        "episodes",
    ),
    "checkpoint that is not there": (
        ["trainer.resume_mode=resume_path", "trainer.resume_from_path=runs/global_step_5"],
        "trainer.resume_from_path",
        "checkpoint",
    ),
    "dataset class that is not there": (
        ["data.custom_cls.path=mydata.py"],
        "data.custom_cls.path",
        "such",
    ),
    "engine wider than the run": (
        ["actor_rollout_ref.rollout.tensor_model_parallel_size=3"],
        "actor_rollout_ref.rollout.tensor_model_parallel_size",
        "divide",
    ),
    "fewer rows taken than a batch": (
        ["data.train_max_samples=2"],
        "data.train_batch_size",
        "training",
    ),
    "function behind the file": (
        ["custom_reward_function.path=reward.py:compute_score"],
        "custom_reward_function.path",
        "custom_reward_function.name",
    ),
    "reward file without .py": (
        ["custom_reward_function.path=reward"],
        "custom_reward_function.path",
        "Python",
    ),
    "folder in place of a parquet": (["data.train_files=matrix"], "data.train_files", "parquet"),
    "file in place of a model": (
        ["actor_rollout_ref.model.path=model/config.json"],
        "actor_rollout_ref.model.path",
        "folder",
    ),
    "feedback class not named": (["rltf/feedback=own"], "rltf.feedback.provider", "mine.py"),
    "hardware=cpu left out": (["rltf/hardware=gpu"], "trainer.device", "VERL_PLATFORM"),
    "batch that cannot be divided": (
        [
            "actor_rollout_ref.actor.use_dynamic_bsz=false",
            "trainer.n_gpus_per_node=3",
            "actor_rollout_ref.rollout.n=8",
        ],
        "",
        "real_train_batch_size",
    ),
}


VALUES = {
    "data.train_batch_size=0": "at least 1",
    f"{ROLLOUT}.n=-1": "at least 1",
    "trainer.total_training_steps=0": "at least 1",
    "data.max_response_length=0": "at least 1",
    "trainer.n_gpus_per_node=0": "at least 1",
    "trainer.total_epochs=0.5": "a whole number",
    f"{ACTOR}.optim.lr=fast": "a number",
    "data.shuffle=maybe": "true or false",
    f"{ROLLOUT}.name=vlm": "transformers",
    f"{ACTOR}.strategy=fsdp3": "fsdp2",
    "trainer.resume_mode=always": "resume_path",
}
"""Values that no run can have, and a word of the fix."""


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_ray_with_key_and_fix(run: Callable[..., DictConfig], case: str) -> None:
    words, key, word = REFUSED[case]
    config = run(*words)
    refused = list(refusals(config))
    if NIGHTLY or not refused:
        refused += refused_by_verl(config)
    assert [f for f in refused if f.key == key and word in str(f)], refused
    assert all(f.level == "error" and "\n" not in str(f) for f in refused)


def test_no_problem_of_another_environment_is_played(run: Callable[..., DictConfig]) -> None:
    plan = make_plan(inspect_run(run("data.train_files=matrix/train.parquet")), 3)
    assert not plan.problems
    assert "extra_info.env" in " ".join(plan.refusals)


def test_values_that_no_run_can_have_are_refused_together(run: Callable[..., DictConfig]) -> None:
    refused = {finding.key: finding.fix for finding in refusals(run(*VALUES))}
    for word, fix in VALUES.items():
        assert fix in refused[word.partition("=")[0]], word


DEVICES, ENGINE = "trainer.n_gpus_per_node", f"{ROLLOUT}.name"
UPDATE, SAMPLER = machine.PRECISIONS
ATTENTION = f"{MODEL}.override_config.attn_implementation"
OLD_CARD = {"bf16": False}
MACHINES: list[tuple[str, dict[str, Any], list[str], set[str]]] = [
    ("gpu", {"num": 0}, [], {"VERL_PLATFORM"}),
    ("cpu", {"num": 0}, [], {"rltf/hardware"}),
    ("gpu", {}, [], {ATTENTION}),
    ("gpu", {}, [f"{DEVICES}=2"], {DEVICES, ATTENTION}),
    ("gpu", {"ENGINES": ("sglang",)}, [f"{ENGINE}=sglang"], {ENGINE, ATTENTION}),
    ("gpu", {}, [f"+{ATTENTION}=flash_attention_2"], {ATTENTION}),
    ("gpu", {}, [f"+{ATTENTION}=sdpa"], set()),
    ("gpu", {"FLASH": ("json",)}, [], set()),
    ("gpu_small", OLD_CARD, [], {UPDATE, SAMPLER}),
    ("gpu_small", OLD_CARD, [f"{UPDATE}=fp32"], {SAMPLER}),
    ("gpu_small_fp16", OLD_CARD, [], set()),
]
"""A hardware group on a machine with one GPU and no package for it, or as it says; further words,
and what of the machine is refused.
"""


@pytest.mark.parametrize(("hardware", "here", "words", "lacks"), MACHINES)
def test_a_machine_that_lacks_something(
    run: Callable[..., DictConfig],
    monkeypatch: pytest.MonkeyPatch,
    hardware: str,
    here: dict[str, Any],
    words: list[str],
    lacks: set[str],
) -> None:
    pretend(monkeypatch, "cuda", here.get("num", 1), here.get("bf16", True))
    for packages in ("ENGINES", "FLASH"):
        monkeypatch.setattr(machine, packages, here.get(packages, ()))
    config = run(f"rltf/hardware={hardware}", f"{DEVICES}=1", *words)
    known = set[str]().union(*(refused for *_, refused in MACHINES))
    assert {finding.key for finding in refusals(config)} & known == lacks


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        ((), 1 + 1 + 3 + 1),
        (("trainer.n_gpus_per_node=2",), 1 + 1 + 6 + 1),
        ((f"{UNITS}=8",), 8 + 1 + 3 + 1),
        (
            (
                "trainer.v1.trainer_mode=rltf_separate_async",
                f"{ROLLOUT}.nnodes=1",
                f"{ROLLOUT}.n_gpus_per_node=2",
            ),
            1 + 1 + 3 + 4 + 1,
        ),
    ],
)
def test_more_cpus_than_ray_counts(
    run: Callable[..., DictConfig],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    needed: int,
) -> None:
    key = "ray_kwargs.ray_init.num_cpus"
    monkeypatch.setattr(machine, "get_num_cpus", lambda: needed - 1)
    (found,) = (f for f in refusals(run(*words, f"{key}=null")) if f.key == key)
    assert f"set it to {needed}" in found.fix
    for there in (str(needed), "null"):
        monkeypatch.setattr(machine, "get_num_cpus", lambda: needed)
        assert key not in {f.key for f in refusals(run(*words, f"{key}={there}"))}


def test_a_math_verify_that_is_broken(
    run: Callable[..., DictConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(*_: object, **__: object) -> object:
        raise CallFailed("no grader process: ImportError: cannot import name 'LaTeXParser'")

    monkeypatch.setattr(Pool, "call", call)
    refused = refusals(run("rltf/env=math", "custom_reward_function.path=null"))
    assert "rltf.env.name=math: math-verify cannot" in " ".join(map(str, refused))


WARNED: dict[str, tuple[list[str], str, str]] = {
    "validation on the training file": (
        ["data.val_files=train.parquet"],
        "data.val_files",
        "train.parquet",
    ),
    "validation with questions of the training file": (
        ["data.val_files=half.parquet"],
        "data.val_files",
        "train.parquet",
    ),
    "no validation": (["trainer.test_freq=-1"], "trainer.test_freq", "untrained"),
    "epochs that end before the steps": (
        ["trainer.total_training_steps=100", "trainer.total_epochs=2"],
        "trainer.total_training_steps",
        "ends",
    ),
    "no checkpoint": (["trainer.save_freq=-1"], "trainer.save_freq", "checkpoint"),
    "metrics printed only": (["trainer.logger=[console]"], "trainer.logger", "console"),
    "no episodes kept": (["rltf.episode_log.dir=null"], "rltf.episode_log.dir", "episodes"),
    "a group of one": (
        ["actor_rollout_ref.rollout.n=1"],
        "actor_rollout_ref.rollout.n",
        "baseline",
    ),
    "grades in parts and the paper's baseline": (
        ["custom_reward_function.name=graded"],
        "rltf.distill.baseline",
        "rejection",
    ),
    "answers all the same": (
        ["actor_rollout_ref.rollout.temperature=0"],
        "actor_rollout_ref.rollout.temperature",
        "answers",
    ),
    "prompt and grader want other forms": (["data.train_files=boxed.parquet"], "", "prompt"),
    "answers cut": (["data.max_response_length=8"], "data.max_response_length", "reference"),
    "little room to quote": (
        [
            *("rltf.episode.context=fresh", "data.max_prompt_length=800"),
            "data.max_response_length=2000",
        ],
        "data.max_prompt_length",
        "second",
    ),
    "rewards of a million": (["custom_reward_function.name=huge"], "", "gradients"),
    "every answer right": (["custom_reward_function.name=generous"], "", "rewarded"),
    "feedback that tells the answer": (["rltf/feedback=verifier_full"], "", "tells"),
    "feedback that says nothing": (["rltf.feedback.level=location"], "", "incorrect."),
    "a setting without effect": (
        ["actor_rollout_ref.actor.ppo_mini_batch_size=2"],
        "actor_rollout_ref.actor.ppo_mini_batch_size",
        "effect",
    ),
}


@pytest.mark.parametrize(
    "words",
    [
        ["rltf.distill.baseline=second_turn"],
        ["rltf.distill.baseline=rejection"],
        ["rltf/method=grpo"],
    ],
)
def test_grades_in_parts_are_fine_with_another_baseline(
    run: Callable[..., DictConfig], words: list[str]
) -> None:
    config = run("custom_reward_function.name=graded", *words)
    lines = make_plan(inspect_run(config), 3).warnings
    assert not [line for line in lines if line.startswith("rltf.distill.baseline")]


def test_what_is_refused_is_not_warned_of_as_well(run: Callable[..., DictConfig]) -> None:
    plan = make_plan(inspect_run(run("data.max_prompt_length=40")), 1)
    assert [line for line in plan.refusals if line.startswith("data.max_prompt_length=40: ")]
    assert not [line for line in plan.warnings if "first prompts are longer" in line]


@pytest.mark.parametrize("case", WARNED)
def test_warned_of_by_the_plan(run: Callable[..., DictConfig], case: str) -> None:
    words, key, word = WARNED[case]
    lines = make_plan(inspect_run(run(*words)), 3).warnings
    assert [line for line in lines if line.startswith(key) and word in line], lines
    assert not [line for line in lines if "\n" in line]


def test_each_rule_of_the_advice_has_a_case() -> None:
    assert {rule.key for rule in RULES} <= {key for _, key, _ in WARNED.values()}


@pytest.mark.parametrize(
    "word", ["data.train_batch_size=0", "data.max_prompt_length=abc", "trainer.save_freq=abc"]
)
def test_what_a_plan_cannot_count_with_is_named(run: Callable[..., DictConfig], word: str) -> None:
    """In the line of the run's own start."""
    config = run(word)
    line = str(next(refusals(config)))
    assert line.startswith(f"{word}: must be ")
    with pytest.raises(ConfigError, match=f"^{line}$"):
        inspect_run(config)


def test_a_slow_reward_function_is_asked_for_a_bounded_time(run: Callable[..., DictConfig]) -> None:
    plan = make_plan(inspect_run(run(), DryRun(1e-9)), 3)
    assert not plan.refusals
    (line,) = [line for line in plan.warnings if "left out" in line]
    assert re.search(r"1e-09 s.* \d+ of 12 problems.*of the 3 problems", line)


def test_one_index_for_all_rows_is_warned_of(
    run: Callable[..., DictConfig], tmp_path: Path
) -> None:
    same = [{**row, "extra_info": {**row["extra_info"], "index": 7}} for row in rows()]
    path = write_rows(tmp_path / "same.parquet", same)
    (line,) = make_plan(inspect_run(run(f"data.train_files={path}")), 1).warnings
    assert re.match("data.train_files=.*index is 7 in all rows", line)
