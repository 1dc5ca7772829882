"""The primary config `rltf`: what comes with a method, and the names of runs."""

import pytest
import verl  # noqa: F401  # registers the search path with Hydra
from hydra import compose, initialize_config_module
from hydra.core.hydra_config import HydraConfig

from rltf_verl import searchpath
from tests.support.configs import composed


def test_what_comes_with_a_method_and_what_is_chosen() -> None:
    rlef = composed("rltf", "rltf/method=rlef")
    assert (rlef.rltf.env.name, rlef.rltf.feedback.provider) == ("code", "verifier")
    chosen = composed("rltf", "rltf/method=ufo", "rltf/feedback=siblings", "rltf/env=math")
    assert (chosen.rltf.env.name, chosen.rltf.feedback.provider) == ("math", "siblings")
    assert chosen.rltf.reward.turn_decay == 0.5


@pytest.mark.parametrize("method", ["sd", "rlef", "release/sd"])
def test_a_reward_functions_score_is_the_reward(method: str) -> None:
    words = [f"rltf/method={method}", "rltf/env=reward_function"]
    assert composed("rltf", *words).rltf.reward.format_coef == 0.0
    assert composed("rltf", *words, "rltf.reward.format_coef=0.2").rltf.reward.format_coef == 0.2
    assert composed("rltf", words[0], "rltf/env=math").rltf.reward.format_coef == 0.1


@pytest.mark.parametrize(
    ("name", "overrides", "run"),
    [
        ("rltf", [], "rltf_sd"),
        ("rltf", ["rltf/method=release/fm"], "rltf_release_fm"),
        ("rltf_fm", [], "rltf_fm"),
    ],
)
def test_a_run_is_named_after_its_method(name: str, overrides: list[str], run: str) -> None:
    try:
        with initialize_config_module("verl.trainer.config", version_base=None):
            config = compose(name, overrides, return_hydra_config=True)
        HydraConfig.instance().set_config(config)
        assert config.trainer.experiment_name == run
        assert config.trainer.default_local_dir == f"checkpoints/rltf/{run}"
        assert searchpath.run_name("rltf/env", "rltf/feedback").startswith("binary_matrix_")
    finally:
        HydraConfig.instance().cfg = None
