"""`recipes/rltf` has the paper's experiments, the other recipes fit together, and the runner of the
smoke tests counts what failed.
"""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from jinja2 import Template
from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.startup.checks import checked_parts
from rltf_verl.config import RLTFConfig
from tests.recipes.composing import RECIPES, composed, method_of, rltf_of
from tests.recipes.experiments import COMPOSED, EXPERIMENTS, METHODS, TASKS, parts
from tests.recipes.seeds import NAMES

sys.path.insert(0, str(RECIPES / "smoke"))  # programs, not a package

from smoke_tests import HERE, find_tests

RELEASE = RECIPES.parent / "hydra_configs" / "rltf_verl" / "rltf" / "method" / "release"
MAIN = "grpo_single"


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


@pytest.mark.parametrize(
    ("read", "name", "expected"),
    [
        *((method_of, name, "soft") for name in ("sd", "sd_fm", "sd_second_turn", "sd_reject")),
        *((rltf_of, f"rltf/kk_{name}", "hard") for name in ("sd", "sd_second_turn", "sd_reject")),
        *((method_of, f"release/{name}", "hard") for name in ("sd", "sd_second_turn")),
    ],
)
def test_floor_of_our_methods_and_of_what_repeats_the_release(
    read: Callable[[str], RLTFConfig], name: str, expected: str
) -> None:
    assert read(name).distill.floor == expected


SMALL = (
    "rltf/kk_sd",
    "rltf/dapo_fm_self_critique",
    "rl2f/rl2f",
    *(
        pytest.param(name, marks=pytest.mark.nightly)
        for name in ("rltf/sp_grpo_single", "rltf/writing_sd", "guided", "sdpo")
    ),
)
"""Each environment, each provider, each context."""


def test_every_experiment_of_every_recipe_is_there() -> None:
    names = {test.name for test in find_tests(RECIPES)}
    others = {*(f"{name}/{name}" for name in NAMES), "rl2f/rl2f", "rl2f/rlvr", "rl2f/sft"}
    assert names == others | {f"rltf/{name}" for name in EXPERIMENTS}


@pytest.mark.parametrize("name", SMALL)
def test_it_is_the_same_experiment_made_small(name) -> None:
    full = name if "/" in name else f"{name}/{name}"
    (test,) = (test for test in find_tests(RECIPES) if test.name == full)
    config, real = test.config, rltf_of(name)
    small = checked_parts(config).config
    for block in ("attempt", "distill", "imitate", "critique", "logit_distill", "reward", "gamma"):
        assert getattr(small, block) == getattr(real, block), block
    assert small.feedback.provider.name == real.feedback.provider.name
    assert small.feedback_modeling.weight == real.feedback_modeling.weight
    assert (small.env.name, small.episode.horizon) == (real.env.name, real.episode.horizon)
    assert (config.trainer.device, config.trainer.total_training_steps) == ("cpu", 2)
    longest = config.data.max_prompt_length + config.data.max_response_length
    assert longest <= 512, "positions of the tiny policy"
    for option in config.smoke.data.values():
        assert not str(option).endswith(".jsonl") or (HERE / option).is_file()
