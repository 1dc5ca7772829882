"""What people get wrong: each is refused before Ray in one line that says what to change, or warned
of by `rltf plan`. None reaches a worker.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import DictConfig

from rltf_verl.adapters.plan.compose import MAIN, compose_run
from rltf_verl.adapters.startup import machine
from rltf_verl.adapters.startup.checks import refusals
from rltf_verl.adapters.startup.hook import refused_by_verl
from rltf_verl.config import ConfigError
from rltf_verl.envs.pool.pool import CallFailed, Pool
from rltf_verl.envs.trials import Trials
from rltf_verl.tools.plan.looking import look
from rltf_verl.tools.plan.making import make_plan
from tests.support.effort import NIGHTLY
from tests.support.plan_runs import pretend, rows

ACTOR, ROLLOUT, MODEL = (f"actor_rollout_ref.{part}" for part in ("actor", "rollout", "model"))


def test_a_run_without_a_mistake_is_not_refused(run: Callable[..., DictConfig]) -> None:
    config = run()
    assert [*refusals(config), *refused_by_verl(config)] == []
    assert make_plan(look(config), 3)["warnings"] == []


def test_a_config_of_ones_own_folder_that_names_a_search_path() -> None:
    folder = Path(__file__).parents[3] / "recipes" / "rltf" / "config"
    config = compose_run("paper", ["task=kk", "method=sd"], folder=folder)
    assert (config.rltf.env.name, config.trainer.experiment_name) == ("knights_knaves", "kk_sd")


COMPOSED = {
    "wrong method with a teacher": (["rltf/method=spdo"], "no spdo; did you mean teacher/sdpo?"),
    "a name that a method had": (["rltf/method=rltf_sd"], "method=rltf_sd: write rltf/method=sd"),
    "wrong method": (["rltf/method=sdd"], "rltf/method=sdd: there is no sdd; did you mean sd?"),
    "misspelt key": (
        ["rltf.distil.weight=0.2"],
        "rltf.distil.weight=0.2: there is no key distil; did you mean rltf.distill?",
    ),
    "key at the wrong level": (
        ["distill.weight=0.2"],
        "distill.weight=0.2: there is no key distill; did you mean rltf.distill.weight?",
    ),
    "~ without quotes": (["data.train_files=~/x.parquet"], "data.train_files=~/x.parquet: cannot"),
    "a group's choice with a dot": (["rltf.method=grpo"], "rltf.method=grpo: write rltf/method="),
    "a group that is not there": (["rltf/methd=sd"], "did you mean rltf/method?"),
    "a class as a group": (
        ["rltf/env=./mine.py:Mine"],
        "rltf/env=./mine.py:Mine: write rltf/env=own rltf.env.name=./mine.py:Mine",
    ),
    "a key of another block": (
        ["rltf.episode.gamma=0.5"],
        "rltf.episode.gamma=0.5: there is no key gamma; did you mean rltf.gamma?",
    ),
    "half of a key": (
        ["model.path=x"],
        "model.path=x: there is no key model; did you mean actor_rollout_ref.model.path?",
    ),
    "verl's key misspelt": (
        ["data.max_prompt_len=4"],
        "there is no key max_prompt_len; did you mean data.max_prompt_length?",
    ),
    "dashes": (["--rltf.distill.weight=1"], "write rltf.distill.weight=1, without dashes"),
    "spaces around =": (["rltf.distill.weight", "=", "1"], "write rltf.distill.weight=VALUE"),
    "a list without brackets": (
        ["trainer.logger=console,file"],
        "a list needs brackets and quotes: 'trainer.logger=[console,file]'",
    ),
    "config without its dashes": (["config=rltf_sd"], "write --config-name=rltf_sd"),
    "wrong group": (
        ["rltf/env=gsm8k"],
        "rltf/env=gsm8k: there is no gsm8k; known: binary_matrix, code",
    ),
}


@pytest.mark.parametrize("case", COMPOSED)
def test_a_command_that_cannot_be_composed_is_one_line(case: str) -> None:
    words, message = COMPOSED[case]
    with pytest.raises(ConfigError) as refused:
        compose_run("rltf", words)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_wrong_config_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"start from --config-name=rltf$"):
        compose_run("ppo_trainer", ["rltf/hardware=cpu"])
    with pytest.raises(
        ConfigError, match=r"^--config-name=rltf_sdd: there is no .*did you mean rltf_sd"
    ):
        compose_run("rltf_sdd", [])


def test_a_start_of_verl_says_it_in_the_same_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from hydra._internal.hydra import Hydra
    from hydra._internal.utils import create_automatic_config_search_path
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import ConfigCompositionException
    from hydra.types import RunMode

    def start(name: str, *words: str) -> DictConfig:
        GlobalHydra.instance().clear()
        search = create_automatic_config_search_path(None, MAIN, "config")
        hydra = Hydra.create_main_hydra2("main_ppo", search)
        try:
            return hydra.compose_config(name, list(words), RunMode.RUN)
        finally:
            GlobalHydra.instance().clear()

    with pytest.raises(SystemExit) as ended:
        start("rltf_sd", "rltf.distil.weight=0.2")
    line = "rltf.distil.weight=0.2: there is no key distil; did you mean rltf.distill?"
    assert str(ended.value) == f"rltf: {line}"
    with pytest.raises(SystemExit, match="did you mean rltf_sd"):
        start("rltf_sdd")
    with pytest.raises(ConfigCompositionException, match="To append to your config"):
        start("ppo_trainer", "trainer.n_gpu=3")  # without us, as if we were not there
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(ConfigCompositionException, match="To append to your config"):
        start("rltf_sd", "rltf.distil.weight=0.2")


JUDGE = "rltf.feedback.endpoint.base_url=http://127.0.0.1:9/v1", "rltf.feedback.endpoint.model=m"
MATRIX = ["rltf/env=binary_matrix", "custom_reward_function.path=null"]
REFUSED: dict[str, tuple[list[str], str]] = {
    "misspelt key with +": (
        ["+rltf.distil.weight=1"],
        "rltf.distil={'weight': 1}: unknown key; did you mean rltf.distill?",
    ),
    "negative weight": (["rltf.distill.weight=-1"], "rltf.distill.weight=-1"),
    "one turn for SD": (["rltf.episode.horizon=1"], "rltf.episode.horizon=1: distill needs"),
    "GRPO with groups of one": (
        ["rltf/method=grpo", f"{ROLLOUT}.n=1"],
        f"{ROLLOUT}.n=1: a group of one is its own baseline (rltf.attempt.estimator=group_mean)",
    ),
    "guard off and the answer told": (
        ["rltf.feedback.level=full", "rltf.feedback.guard.action=none"],
        "rltf.feedback.provider=verifier: it states the answer on purpose",
    ),
    "template that is not there": (
        ["rltf.episode.revise=./again.j2"],
        "rltf.episode.revise=",
    ),
    "judge without endpoint": (
        ["rltf/feedback=judge"],
        "rltf.feedback.endpoint.base_url=???: must be a URL such as",
    ),
    "judge without key": (
        ["rltf/feedback=judge", *JUDGE, "rltf.feedback.endpoint.api_key_env=NO_SUCH_KEY"],
        "rltf.feedback.endpoint.api_key_env=NO_SUCH_KEY: this environment variable is not set",
    ),
    "judge's style misspelt": (
        ["rltf/feedback=judge", *JUDGE, "rltf.feedback.style=hnit"],
        "rltf.feedback.style='hnit': is not known",
    ),
    "reward function misspelt": (
        ["custom_reward_function.name=score"],
        "reward.py has no 'score'; known: broken, compute_score, generous. (custom_reward_function."
        "path and .name set it)",
    ),
    "reward file that is not there": (
        ["custom_reward_function.path=rewards.py"],
        "no such file, seen from",
    ),
    "reward function that raises": (
        ["custom_reward_function.name=broken"],
        "KeyError: 'answer_type' (reward.py:10) (the reference as the answer, data_source=mine)",
    ),
    "own environment's file misspelt": (
        [*MATRIX, "~rltf.env", "+rltf.env.name=./mime.py:Mine"],
        "mime.py:Mine': FileNotFoundError: no such file",
    ),
    "own environment's class misspelt": (
        [*MATRIX, "~rltf.env", "+rltf.env.name=./mine.py:Mien"],
        "mine.py has no 'Mien'; known: Mine. Did you mean 'Mine'?",
    ),
    "own objective whose rows raise": (
        ["+rltf.objectives.own=./objectives.py:NoRows"],
        "objectives.py:NoRows: rows() raised AttributeError: 'Episode' object has no attribute"
        " 'scores' (objectives.py:7)",
    ),
    "own objective whose loss raises": (
        ["+rltf.objectives.own=./objectives.py:NoLoss"],
        "objectives.py:NoLoss: loss() raised AttributeError: 'Settings' object has no attribute"
        " 'scale' (objectives.py:11) (tried before the run, on episodes that are made up)",
    ),
    "no training file": (["data.train_files=null"], "data.train_files=None: no file is named"),
    "missing parquet": (
        ["data.train_files=trian.parquet"],
        "data.train_files=trian.parquet: no such file, seen from",
    ),
    "empty parquet": (["data.val_files=empty.parquet"], "empty.parquet has no rows"),
    "no parquet": (["data.val_files=train.csv"], "train.csv is not a parquet file"),
    "verl's parquet for an environment that needs ours": (
        MATRIX,
        "train.parquet has no column agent_name: make the dataset with `rltf data build`, or from a"
        " file in verl's form with `rltf data wrap`",
    ),
    "data of another environment": (
        ["data.train_files=matrix/train.parquet"],
        "its rows were made for the environment binary_matrix (extra_info.env)",
    ),
    "more problems a batch than rows": (
        ["data.train_batch_size=32"],
        "data.train_batch_size=32: the training files hold 12 rows",
    ),
    "no model named": ([f"{MODEL}.path=null"], f"{MODEL}.path=None: no model is named"),
    "model folder misspelt": ([f"{MODEL}.path=./modle"], f"{MODEL}.path=./modle: no such folder"),
    "model that the hub does not have": (
        [f"{MODEL}.path=nobody/has-this"],
        f"{MODEL}.path=nobody/has-this: no such folder here, and the Hugging Face hub cannot be",
    ),
    "verl's default model": (
        [f"{MODEL}.path='~/models/deepseek-llm-7b-chat'"],
        f"{MODEL}.path=~/models/deepseek-llm-7b-chat: no such folder",
    ),
    "home folder as ~": ([f"{MODEL}.path='~/model'"], "verl does not expand ~; write /"),
    "folder without a model": (
        [f"{MODEL}.path=nothing"],
        f"{MODEL}.path=nothing: no config.json in this folder",
    ),
    "model without weights": (
        [f"{MODEL}.path=bare"],
        f"{MODEL}.path=bare: no weights in this folder",
    ),
    "model without tokenizer": ([f"{MODEL}.path=mute"], f"{MODEL}.path=mute: cannot be loaded"),
    "tokenizer without chat template": (
        [f"{MODEL}.path=untold"],
        f"{MODEL}.path=untold: its tokenizer has no chat template",
    ),
    "role that the chat template does not know": (
        [f"{MODEL}.path=strict", "data.train_files=odd.parquet"],
        f"{MODEL}.custom_chat_template: the chat template cannot render problem 0",
    ),
    "model whose layers see a part": (
        [f"{MODEL}.path=window"],
        f"{MODEL}.path=window: rollout.name=transformers needs full attention in every layer",
    ),
    "model that reads too little": (
        [f"{MODEL}.path=short"],
        "together 4096 tokens, and actor_rollout_ref.model.path=short reads 1000",
    ),
    "prompts over the limit": (
        ["data.max_prompt_length=40"],
        "data.max_prompt_length=40: the first prompt of problem 0 has",
    ),
    "second prompts over the limit": (
        ["data.max_prompt_length=200"],
        "data.max_prompt_length=200: the revise prompt of template critique needs",
    ),
    "wandb without login": (
        ["trainer.logger=[console,wandb]"],
        "trainer.logger=[console,wandb]: there is no wandb login on this machine",
    ),
    "logger that is not installed": (
        ["trainer.logger=[swanlab]"],
        "trainer.logger=[swanlab]: the package swanlab is not installed",
    ),
    "logger misspelt": (["trainer.logger=[wandbb]"], "verl has no logger wandbb; known: wandb, "),
    "folder that cannot be written": (
        ["trainer.default_local_dir=reward.py/runs"],
        "rltf.episode_log.dir=reward.py/runs/episodes: cannot be written",
    ),
    "negative learning rate": ([f"{ACTOR}.optim.lr=-1e-6"], f"{ACTOR}.optim.lr=-1e-06: must be"),
    "checkpoint that is not there": (
        ["trainer.resume_mode=resume_path", "trainer.resume_from_path=runs/global_step_5"],
        "trainer.resume_from_path=runs/global_step_5: no folder of a checkpoint",
    ),
    "dataset class that is not there": (
        ["data.custom_cls.path=mydata.py"],
        "data.custom_cls.path=mydata.py: no such file",
    ),
    "engine wider than the run": (
        [f"{ROLLOUT}.tensor_model_parallel_size=3"],
        f"{ROLLOUT}.tensor_model_parallel_size=3 does not divide the run's number",
    ),
    "fewer rows taken than a batch": (
        ["data.train_max_samples=2"],
        "data.train_batch_size=4: the training files hold 12 rows, of which data.train_max_samples",
    ),
    "function behind the file": (
        ["custom_reward_function.path=reward.py:compute_score"],
        "write custom_reward_function.path=reward.py custom_reward_function.name=compute_score",
    ),
    "reward file without .py": (
        ["custom_reward_function.path=reward"],
        "custom_reward_function.path=reward: must be a Python file",
    ),
    "folder in place of a parquet": (["data.train_files=matrix"], "data.train_files=matrix: "),
    "file in place of a model": (
        [f"{MODEL}.path=model/config.json"],
        f"{MODEL}.path=model/config.json: a file; name the folder that it is in",
    ),
    "feedback class not named": (
        ["rltf/feedback=own"],
        "rltf.feedback.provider=???: name your class, e.g. rltf.feedback.provider=./mine.py:Mine",
    ),
    "hardware=cpu left out": (
        ["rltf/hardware=gpu"],
        "VERL_PLATFORM=cpu but trainer.device=cuda: add rltf/hardware=cpu",
    ),
    "batch that cannot be divided": (
        [f"{ACTOR}.use_dynamic_bsz=false", "trainer.n_gpus_per_node=3", f"{ROLLOUT}.n=8"],
        "verl: real_train_batch_size (32) must be divisible by minimal possible batch size (3)",
    ),
}


TOGETHER: dict[str, tuple[list[str], str]] = {
    "no problems a batch": (
        ["data.train_batch_size=0"],
        "data.train_batch_size=0: must be a whole",
    ),
    "no answers a problem": ([f"{ROLLOUT}.n=-1"], f"{ROLLOUT}.n=-1: must be a whole number"),
    "no steps": (["trainer.total_training_steps=0"], "trainer.total_training_steps=0: must be"),
    "no answer length": (["data.max_response_length=0"], "data.max_response_length=0: must be"),
    "no GPU for the run": (["trainer.n_gpus_per_node=0"], "trainer.n_gpus_per_node=0: must be"),
    "half an epoch": (["trainer.total_epochs=0.5"], "trainer.total_epochs=0.5: must be a whole"),
    "learning rate in words": ([f"{ACTOR}.optim.lr=fast"], f"{ACTOR}.optim.lr=fast: must be a num"),
    "gradients cut to nothing": ([f"{ACTOR}.grad_clip=0"], "or every gradient becomes 0"),
    "more than all tokens": ([f"{ROLLOUT}.top_p=2"], f"{ROLLOUT}.top_p=2: must be above 0 and at"),
    "switch in words": (["data.shuffle=maybe"], "data.shuffle=maybe: must be true or false"),
    "engine misspelt": ([f"{ROLLOUT}.name=vlm"], f"{ROLLOUT}.name=vlm: not known here; choose"),
    "strategy misspelt": ([f"{ACTOR}.strategy=fsdp3"], f"{ACTOR}.strategy=fsdp3: not known here"),
    "resume misspelt": (["trainer.resume_mode=always"], "choose one of auto, disable, resume_path"),
}
"""A value that no run can have, each told beside the others."""


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_ray_in_one_line(run: Callable[..., DictConfig], case: str) -> None:
    words, message = REFUSED[case]
    config = run(*words)
    found = list(refusals(config))
    if NIGHTLY or not any(message in line for line in found):
        found += refused_by_verl(config)
    assert [line for line in found if message in line], found
    assert not [line for line in found if "\n" in line]


def test_values_that_no_run_can_have_are_told_in_a_line_each(
    run: Callable[..., DictConfig],
) -> None:
    found = list(refusals(run(*(word for words, _ in TOGETHER.values() for word in words))))
    for case, (_, message) in TOGETHER.items():
        assert [line for line in found if message in line], (case, found)
    assert not [line for line in found if "\n" in line]


def test_a_machine_that_lacks_something(
    run: Callable[..., DictConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    def first(*words: str) -> str:
        return next(refusals(run(*words)))

    gpu = "rltf/hardware=gpu"
    pretend(monkeypatch, "cuda")
    assert "no accelerator on this machine and VERL_PLATFORM is not set" in first(gpu)
    assert "start with VERL_PLATFORM=cpu in the environment" in first()
    pretend(monkeypatch, "cuda", num=1)
    assert "trainer.n_gpus_per_node=8: this machine has 1; set it to 1" in first(gpu)
    missing = f"{ROLLOUT}.name=sglang: sglang is not installed; pip install sglang"
    assert missing in first(gpu, "trainer.n_gpus_per_node=1", f"{ROLLOUT}.name=sglang")
    monkeypatch.setattr(machine, "ENGINES", ())
    one = (gpu, "trainer.n_gpus_per_node=1")
    assert "flash-attn is not installed" in first(*one)
    other = "+actor_rollout_ref.model.override_config.attn_implementation"
    assert "flash-attn is not installed" in first(*one, f"{other}=flash_attention_2")
    monkeypatch.setattr(machine, "FLASH", ("json",))
    assert not [line for line in refusals(run(*one)) if "flash" in line]
    monkeypatch.setattr(machine, "FLASH", ())
    assert not [line for line in refusals(run(*one, f"{other}=sdpa")) if "flash" in line]


def test_a_math_verify_that_is_broken(
    run: Callable[..., DictConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(*_: object, **__: object) -> object:
        raise CallFailed("no grader process: ImportError: cannot import name 'LaTeXParser'")

    monkeypatch.setattr(Pool, "call", call)
    found = list(refusals(run("rltf/env=math", "custom_reward_function.path=null")))
    assert "rltf.env.name=math: math-verify cannot compare answers (no grader" in "".join(found)


WARNED = {
    "validation on the training file": (
        ["data.val_files=train.parquet"],
        "data.val_files=train.parquet: is trained on",
    ),
    "validation with questions of the training file": (
        ["data.val_files=half.parquet"],
        "data.val_files: train.parquet and half.parquet share 6 questions",
    ),
    "no validation": (["trainer.test_freq=-1"], "trainer.test_freq=-1: only the untrained model"),
    "epochs that end before the steps": (
        ["trainer.total_training_steps=100", "trainer.total_epochs=2"],
        "trainer.total_training_steps=100: the run ends after 6 steps, with its",
    ),
    "no checkpoint": (["trainer.save_freq=-1"], "trainer.save_freq=-1: no checkpoint is written"),
    "metrics printed only": (["trainer.logger=[console]"], "trainer.logger=[console]: metrics are"),
    "no episodes kept": (["rltf.episode_log.dir=null"], "rltf.episode_log.dir=null: no episodes"),
    "a group of one": ([f"{ROLLOUT}.n=1"], f"{ROLLOUT}.n=1: a group of one is its own baseline"),
    "answers all the same": (
        [f"{ROLLOUT}.temperature=0"],
        f"{ROLLOUT}.temperature=0.0: all answers of a group are the same",
    ),
    "prompt and grader want other forms": (
        ["data.train_files=boxed.parquet"],
        "problem 0: its prompt asks for \\boxed{}, and the grader takes '\\\\boxed{1}' for wrong,"
        " and reads ####",
    ),
    "answers cut": (
        ["data.max_response_length=8"],
        "data.max_response_length=8: 12 of 12 reference solutions are longer",
    ),
    "little room to quote": (
        ["data.max_prompt_length=800", "data.max_response_length=2000"],
        "data.max_prompt_length=800: a second prompt has room for",
    ),
    "every answer right": (
        ["custom_reward_function.name=generous"],
        "the grader takes 'I do not know.' for right: every answer would be rewarded",
    ),
    "feedback that tells the answer": (
        ["rltf/feedback=verifier_full"],
        "the feedback tells the answer at 3 of 3 problems, as acknowledge_leaks=true says",
    ),
    "feedback that says nothing": (
        ["rltf.feedback.level=location"],
        "the feedback is 'Your previous answer is incorrect.' at all 3 problems",
    ),
    "a setting without effect": (
        [f"{ACTOR}.ppo_mini_batch_size=2"],
        f"{ACTOR}.ppo_mini_batch_size=2: has no effect with an rltf: block",
    ),
}


def test_what_is_refused_is_not_warned_of_as_well(run: Callable[..., DictConfig]) -> None:
    found = make_plan(look(run("data.max_prompt_length=40")), 1)
    assert [line for line in found["refusals"] if line.startswith("data.max_prompt_length=40: ")]
    assert not [line for line in found["warnings"] if "first prompts are longer" in line]


@pytest.mark.parametrize("case", WARNED)
def test_warned_of_by_the_plan(run: Callable[..., DictConfig], case: str) -> None:
    words, message = WARNED[case]
    found = make_plan(look(run(*words)), 3)["warnings"]
    assert [line for line in found if line.startswith(message)], found
    assert not [line for line in found if "\n" in line]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("data.train_batch_size=0", "must be a whole number, at least 1"),
        ("data.max_prompt_length=abc", "must be a number"),
        ("trainer.save_freq=abc", "must be a number"),
    ],
)
def test_what_a_plan_cannot_count_with_is_named(
    run: Callable[..., DictConfig], word: str, said: str
) -> None:
    """In the line of the run's own start."""
    config = run(word)
    assert next(refusals(config)) == f"{word}: {said}"
    with pytest.raises(ConfigError, match=f"^{word}: {said}$"):
        look(config)


def test_a_slow_reward_function_is_asked_for_a_bounded_time(
    run: Callable[..., DictConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\n"
        "def compute_score(data_source, solution_str, ground_truth, extra_info):\n"
        f"    with open({str(tmp_path / 'calls')!r}, 'a') as calls:\n"
        "        calls.write('x')\n"
        "    time.sleep(0.1)\n"
        "    return {'score': 0.0, 'feedback': 'The unit is wrong.'}\n"
    )
    monkeypatch.setattr("rltf_verl.envs.trials.EARLY_S", 0.05)
    told: list[str] = []
    path, name = f"custom_reward_function.path={tmp_path}/slow.py", "custom_reward_function.name"
    found = make_plan(look(run(path, f"{name}=compute_score"), Trials(1.2, told.append)), 3)
    assert 4 <= len((tmp_path / "calls").read_text()) <= 14, "of more than 60"
    assert [line.startswith("waiting for the grader, which") for line in told] == [True]
    assert not found["refusals"]
    (line,) = [line for line in found["warnings"] if "left out" in line]
    assert ": the checks before the run have 1.2 s for it, so these were left out: " in line
    assert "feedback on 11 of 12 problems, whose later prompts were measured with" in line
    assert "with 0 tokens" not in line
    assert "of the 3 problems to show" in line


def test_one_index_for_all_rows_is_warned_of(
    run: Callable[..., DictConfig], tmp_path: Path
) -> None:
    same = [{**row, "extra_info": {**row["extra_info"], "index": 7}} for row in rows()]
    pq.write_table(pa.Table.from_pylist(same), tmp_path / "same.parquet")
    config = run(f"data.train_files={tmp_path}/same.parquet")
    said = f"data.train_files={tmp_path}/same.parquet: extra_info.index is 7 in all rows"
    assert [said in line for line in make_plan(look(config), 1)["warnings"]] == [True]
