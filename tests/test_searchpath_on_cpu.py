"""The primary config `rltf`: what comes with a method, the names of runs, and the old names."""

from __future__ import annotations

import logging
from importlib.resources import files
from pathlib import Path

import pytest
import verl  # noqa: F401  # registers the search path with Hydra
from hydra import compose, initialize_config_module
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, MissingConfigException
from omegaconf import DictConfig

from rltf_verl import searchpath


def composed(name: str, *overrides: str) -> DictConfig:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(name, list(overrides))


def test_an_old_name_is_the_new_form_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, searchpath.__name__):
        old = composed("rltf_release/sd")
    (line,) = [r.getMessage() for r in caplog.records if r.name == searchpath.__name__]
    expected = "--config-name=rltf_release/sd is now --config-name=rltf rltf/method=release/sd"
    assert line == expected
    assert old == composed("rltf", "rltf/method=release/sd")


def test_so_is_the_old_name_of_a_method(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, searchpath.__name__):
        old = composed("rltf", "rltf/method=sc_sdpo")
    (line,) = [r.getMessage() for r in caplog.records if r.name == searchpath.__name__]
    assert line == "rltf/method=sc_sdpo is now rltf/method=teacher/sc_sdpo"
    assert old == composed("rltf", "rltf/method=teacher/sc_sdpo")


def test_a_name_of_the_papers_is_the_new_form_without_a_line(caplog) -> None:
    with caplog.at_level(logging.WARNING, searchpath.__name__):
        assert composed("rltf_sd_fm") == composed("rltf", "rltf/method=sd_fm")
        composed("rltf", "rltf/method=teacher/srpo")  # made of another one
    assert not [r for r in caplog.records if r.name == searchpath.__name__]


def test_an_experiment_that_was_a_file_names_its_parts() -> None:
    with pytest.raises(ConfigCompositionException) as error:
        composed("kk_sd_ppo")
    line = "--config-name=kk_sd_ppo is now --config-name=paper task=kk method=sd_ppo"
    assert str(error.value) == line
    listed = Path(__file__).parents[1] / "recipes" / "rltf" / "experiments.txt"
    assert searchpath.EXPERIMENTS.keys() <= set(listed.read_text("utf-8").split())


def test_a_config_of_ones_own_that_is_not_there_is_none_of_the_old_names() -> None:
    with pytest.raises(MissingConfigException, match="sp_mine"):
        composed("sp_mine")


def test_every_choice_that_is_named_exists() -> None:
    groups = files("hydra_configs.rltf_verl").joinpath("rltf")
    old = {*searchpath.OLD_NAMES.values(), *searchpath.OLD_METHODS.values()}
    methods = {*old, *searchpath.FEEDBACK, *searchpath.ENV}
    names = {
        "method": methods,
        "feedback": {searchpath.feedback_of(method) for method in methods},
        "env": {searchpath.env_of(method) for method in methods},
    }
    for group, options in names.items():
        for option in options:
            assert groups.joinpath(group, f"{option}.yaml").is_file(), (group, option)


def test_what_comes_with_a_method_and_what_is_chosen() -> None:
    rlef = composed("rltf", "rltf/method=rlef")
    assert (rlef.rltf.env.name, rlef.rltf.feedback.provider) == ("code", "verifier")
    chosen = composed("rltf", "rltf/method=ufo", "rltf/feedback=peer", "rltf/env=math")
    assert (chosen.rltf.env.name, chosen.rltf.feedback.provider) == ("math", "peer")
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
        ("rltf", ["rltf/method=sdpo"], "rltf_sdpo"),
        ("rltf_guided", [], "rltf_guided"),
        ("rltf_fm", [], "rltf_fm"),
        ("rltf_release/sd", [], "rltf_release_sd"),
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
