"""`recipes/rltf` has the paper's experiments, and the other recipes fit together."""

from pathlib import Path
from typing import Any

import pytest
from jinja2 import Template
from omegaconf import DictConfig, OmegaConf

from tests.recipes.composing import RECIPES, composed, method_of, rltf_of
from tests.recipes.experiments import COMPOSED, EXPERIMENTS, METHODS, TASKS, parts
from tests.recipes.seeds import NAMES

ROOT = RECIPES.parent
RELEASE = ROOT / "hydra_configs" / "rltf_verl" / "rltf" / "method" / "release"
MAIN = "grpo_single"
PAPERS = [path.parent for path in sorted(RECIPES.glob("*/REQUIRED_VERL.txt"))]


def value(config: DictConfig, key: str) -> Any:
    """A key's value as plain Python."""
    node = OmegaConf.select(config, key, throw_on_missing=True)
    return OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node


def test_every_task_and_method_is_an_experiment() -> None:
    assert {parts(name)[0] for name in EXPERIMENTS} == TASKS
    assert {parts(name)[1] for name in EXPERIMENTS} == METHODS


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in COMPOSED else pytest.mark.nightly)
        for name in sorted(EXPERIMENTS)
    ],
)
def test_it_is_what_its_name_says(name: str) -> None:
    """It passes the start-up checks, and has what every released script has."""
    config, rltf = composed(f"rltf/{name}"), rltf_of(f"rltf/{name}")
    task, method = parts(name)
    pairs, official = name.endswith("self_critique"), task != "writing"
    assert rltf.env.options.get("mode") == ("official" if official else None)
    assert rltf.distill.enabled == method.startswith("sd")
    assert rltf.feedback_modeling.enabled == method.startswith("fm")
    assert rltf.imitate.enabled == (method == "sft")
    assert (rltf.episode.horizon, rltf.episode.pair_sessions) == (2 - (method == MAIN), pairs)
    assert config.data.train_files.endswith(f"/{task}/train.parquet")
    release = leaves(OmegaConf.to_container(OmegaConf.load(RELEASE / "base.yaml")))
    # By the number of episodes, see below.
    del release["actor_rollout_ref.actor.optim.override_optimizer_config.eps"]
    release["actor_rollout_ref.rollout.n"] *= 2 if pairs else 1
    # The release's form B.
    release["rltf.episode.quote"] = "none" if task in ("bm", "sp") else "all"
    assert {key: value(config, key) for key in release} == release
    optim = config.actor_rollout_ref.actor.optim
    episodes = config.data.train_batch_size * config.actor_rollout_ref.rollout.n
    eps = optim.override_optimizer_config.eps * episodes * config.data.max_response_length
    assert eps == pytest.approx(1e-8, rel=1e-3), "epsilon of sums"


def leaves(block: Any, prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` -> `{"a.b": 1}`."""
    if not isinstance(block, dict):
        return {prefix: block}
    return {
        k: v
        for key, inner in block.items()
        for k, v in leaves(inner, f"{prefix}.{key}".lstrip(".")).items()
    }


@pytest.mark.parametrize(
    ("name", "weight", "baseline"),
    [
        ("kk_sd", 0.1, "second_turn_padded"),
        ("dapo_sd", (0.0, 0.1), "second_turn_padded"),
        ("dapo_sd_ppo", 1.0, "second_turn_padded"),
    ],
)
def test_the_release_is_one_override_away(name: str, weight: object, baseline: str) -> None:
    own, method = rltf_of(f"rltf/{name}"), parts(name)[1]
    release = rltf_of(f"rltf/{name}", f"rltf/method=release/{method}")
    assert (release.distill.weight, release.distill.baseline) == (weight, baseline)
    assert release.schedule.restart_on_resume == (method == "sd")
    assert (release.env, release.feedback) == (own.env, own.feedback)


def test_the_releases_chat_has_no_system_block() -> None:
    model = composed("rltf/kk_sd", "+chat=llama3_plain").actor_rollout_ref.model
    chat = [{"role": "user", "content": "Why?"}]
    text = Template(model.custom_chat_template).render(
        messages=chat, bos_token="<|begin_of_text|>", add_generation_prompt=True
    )
    header = "<|start_header_id|>{}<|end_header_id|>\n\n"
    question = "<|begin_of_text|>" + header.format("user") + "Why?<|eot_id|>"
    assert text == question + header.format("assistant")


@pytest.mark.parametrize("name", [*NAMES, "rltf/kk_sd", "rl2f/rl2f", "rl2f/rlvr"])
def test_rows_fit_into_a_micro_batch(name: str) -> None:
    config = composed(name)
    longest = config.data.max_prompt_length + config.data.max_response_length
    assert config.actor_rollout_ref.actor.ppo_max_token_len_per_gpu >= longest


@pytest.mark.parametrize("folder", PAPERS, ids=lambda folder: folder.name)
def test_required_verl_is_what_the_package_requires(folder: Path) -> None:
    lines = (folder / "REQUIRED_VERL.txt").read_text("utf-8").splitlines()
    required = dict(line.split("=", 1) for line in lines if line[0] != "#")
    assert {"UPSTREAM", "MODE", "VERL_VERSION", "PIP_INSTALL", "NOTES", "REFRESH"} <= set(required)
    assert "verl[verl-core]>=0.9.1,<0.10" in required["PIP_INSTALL"]
    assert "verl[verl-core]>=0.9.1,<0.10" in (ROOT / "setup.py").read_text("utf-8")


@pytest.mark.parametrize("name", ["sd", "sd_fm", "sd_second_turn", "sd_reject"])
def test_floor_and_rate_of_our_methods_and_of_what_repeats_the_release(name: str) -> None:
    ours = method_of(name)
    assert (ours.distill.floor, ours.evidence_scaling) == ("soft", True)
    if name != "sd_fm":
        papers = rltf_of(f"rltf/kk_{name}")
        assert (papers.distill.floor, papers.evidence_scaling) == ("hard", False)


@pytest.mark.parametrize("name", ["release/sd", "release/sd_second_turn"])
def test_the_release_keeps_its_hard_floor_and_its_rate(name: str) -> None:
    release = method_of(name)
    assert (release.distill.floor, release.evidence_scaling) == ("hard", False)


@pytest.mark.parametrize("recipe", ["agents", "corrections", "pretrained"])
def test_a_recipe_of_ours_has_a_rate_that_falls(recipe: str) -> None:
    optim = composed(recipe).actor_rollout_ref.actor.optim
    assert (optim.lr_scheduler_type, optim.min_lr_ratio) == ("cosine", 0.2)
