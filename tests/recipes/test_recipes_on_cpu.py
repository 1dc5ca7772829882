"""The configs of `recipes/rltf` are the paper's experiments, and the documents say of them what they are."""

import re

import pytest
from jinja2 import Template
from omegaconf import OmegaConf

from rltf_verl.adapters.startup.checks import check_config
from tests.recipes.experiments import (
    BENCHMARKS,
    CONFIGS,
    EXPERIMENTS,
    METHODS,
    RAMPS,
    RECIPE,
    RESULTS,
    SCRIPTS,
    TASKS,
    parts,
)

ROOT = RECIPE.parents[1]
RELEASE_BASE = ROOT / "hydra_configs" / "rltf_verl" / "rltf" / "method" / "release" / "base.yaml"
TWINS = (
    "kk_sd", "bm_fm", "sp_grpo_single", "dapo_fm_self_critique", "dapo_sd_ppo", "deepmath_grpo", "kk_sd_correctness",
    "writing_sd",
)  # fmt: skip
"""Each overlay, each provider."""


def test_every_experiment_has_a_config_and_every_config_is_one() -> None:
    assert {file.stem for file in CONFIGS.glob("[!_]*.yaml")} == EXPERIMENTS
    assert len(SCRIPTS) == 23
    assert SCRIPTS <= EXPERIMENTS


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_it_is_what_its_name_says(name, composed) -> None:
    config = composed(name)
    rltf = check_config(config)
    (env, provider, style, template), method = TASKS[parts(name)[0]], METHODS[parts(name)[1]]
    if env != "writing":
        assert rltf.env.options["mode"] == "official"
        provider = method.provider or provider
    assert (rltf.env.name, rltf.episode.revise, rltf.episode.horizon) == (env, template, method.horizon)
    assert rltf.feedback.provider.name == provider
    judge = rltf.feedback.provider.options
    judge = judge["even"] if provider == "paired" else judge
    assert judge.get("style") == (style if provider in ("judge", "paired") else None)
    assert {k: getattr(rltf.distill, k) for k in method.distill} == method.distill
    for objective in ("feedback_modeling", "imitate"):
        assert getattr(rltf, objective).weight == method.weights.get(objective, 0.0), objective
    assert (rltf.attempt.weight, rltf.attempt.estimator, rltf.logit_distill.enabled) == (1.0, "group_mean", False)
    assert config.data.train_files.endswith(f"/{parts(name)[0]}/train.parquet")


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_the_weight_of_distillation_is_the_scripts(name, composed) -> None:
    task, method = parts(name)
    distill = check_config(composed(name)).distill
    if not METHODS[method].distill:
        assert distill.weight == 0.0
    elif task in RAMPS:
        assert (distill.weight, distill.ramp_steps) == ((0.0, 0.1), RAMPS[task])
    else:
        assert distill.weight == 0.1


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_what_all_share(name, composed, value) -> None:
    config, pairs = composed(name), name.endswith("self_critique")
    told = leaves(OmegaConf.to_container(OmegaConf.load(RELEASE_BASE)))
    del told["actor_rollout_ref.actor.optim.override_optimizer_config.eps"]  # by the number of sessions, see below
    told["actor_rollout_ref.rollout.n"] *= 2 if pairs else 1
    told["rltf.episode.quote"] = "none" if name.startswith(("bm_", "sp_")) else "all"  # the release's form B
    assert {key: value(config, key) for key in told} == told, "as every released script"
    optim = config.actor_rollout_ref.actor.optim
    sessions = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
    eps = optim.override_optimizer_config.eps * sessions * config.data.max_response_length
    assert eps == pytest.approx(1e-8, rel=1e-3), "epsilon of sums"
    assert config.actor_rollout_ref.model.path == "meta-llama/Llama-3.1-8B-Instruct"
    assert (config.judge.model, config.judge.temperature) == ("Qwen/Qwen3-235B-A22B-Instruct-2507", 1.0)
    assert (config.rltf.episode.pair_sessions, not config.rltf.episode.stop_when_solved_train) == (pairs, pairs)
    budget = config.data.max_prompt_length + config.data.max_response_length
    assert config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu >= budget


def leaves(block, prefix=""):
    """`{"a": {"b": 1}}` -> `{"a.b": 1}`."""
    if not isinstance(block, dict):
        return {prefix: block}
    return {k: v for key, inner in block.items() for k, v in leaves(inner, f"{prefix}.{key}".lstrip(".")).items()}


@pytest.mark.parametrize(
    ("name", "weight", "baseline"),
    [
        ("kk_sd", 0.1, "second_turn_padded"),
        ("dapo_sd", (0.0, 0.1), "second_turn_padded"),
        ("dapo_sd_ppo", 1.0, "second_turn_padded"),
        ("kk_sd_cispo", 1.0, "second_turn_padded"),
    ],
)
def test_the_release_is_one_override_away(name, weight, baseline, composed) -> None:
    release = check_config(composed(name, f"rltf/method=release/{parts(name)[1]}"))
    assert (release.distill.weight, release.distill.baseline) == (weight, baseline)
    assert release.distill.restart_on_resume == (parts(name)[1] == "sd")
    assert release.env == check_config(composed(name)).env
    assert f"rltf/method=release/{parts(name)[1]}" in (CONFIGS / f"{name}.yaml").read_text("utf-8")


def test_every_script_names_its_switch() -> None:
    methods = {file.stem for file in RELEASE_BASE.parent.glob("*.yaml")}
    for name in SCRIPTS:
        switches = re.findall(r"rltf/method=release/(\w+)", (CONFIGS / f"{name}.yaml").read_text("utf-8"))
        assert switches == [parts(name)[1]], name
        assert set(switches) <= methods


@pytest.mark.parametrize("name", TWINS)
def test_its_cpu_twin_is_the_same_experiment(name, composed) -> None:
    config = composed(name, f"+cpu={parts(name)[0]}")
    twin, real = check_config(config), check_config(composed(name))
    for same in ("attempt", "distill", "imitate", "critique", "gamma"):
        assert getattr(twin, same) == getattr(real, same)
    assert twin.feedback.provider.name == real.feedback.provider.name
    assert twin.feedback_modeling.weight == real.feedback_modeling.weight
    assert (config.trainer.device, config.trainer.total_training_steps) == ("cpu", 2)
    longest = config.data.max_prompt_length + config.data.max_response_length
    assert longest <= 512, "positions of the tiny policy"


def test_the_releases_chat_has_no_system_block(composed) -> None:
    template = composed("kk_sd", "+chat=llama3_plain").actor_rollout_ref.model.custom_chat_template
    chat = [{"role": "user", "content": "Why?"}]
    told = Template(template).render(messages=chat, bos_token="<|begin_of_text|>", add_generation_prompt=True)
    header = "<|start_header_id|>{}<|end_header_id|>\n\n"
    assert told == "<|begin_of_text|>" + header.format("user") + "Why?<|eot_id|>" + header.format("assistant")


def test_the_readmes_table_is_the_folder_and_the_papers_numbers() -> None:
    text = (RECIPE / "README.md").read_text("utf-8")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    table = {line[0].strip("`"): line for line in lines if line[0].strip("`").partition("_")[0] in TASKS}
    assert set(table) == EXPERIMENTS
    for name, line in table.items():
        task, method = parts(name)
        if method in RESULTS["LitBench"]:
            numbers = [RESULTS[benchmark][method] for benchmark in BENCHMARKS[task]]
            assert [float(n) for n in re.findall(r"\d\.\d+", line[3])] == numbers, name
        released = line[4].strip("`")
        assert (released != "–") == (name in SCRIPTS), name


def test_required_verl_is_what_the_package_requires() -> None:
    lines = dict(
        line.split("=", 1) for line in (RECIPE / "REQUIRED_VERL.txt").read_text("utf-8").splitlines() if line[0] != "#"
    )
    assert {"UPSTREAM", "MODE", "PIP_INSTALL", "NOTES", "REFRESH"} <= set(lines)
    assert "verl[verl-core]>=0.9.1,<0.10" in lines["PIP_INSTALL"]
    assert "verl[verl-core]>=0.9.1,<0.10" in (ROOT / "setup.py").read_text("utf-8")
