"""`rltf/env/<name>.yaml` offers what the environment's constructor takes, with the same
defaults.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import yaml

from rltf_verl.envs import env_names, make_env

FOLDER = Path(__file__).parents[2] / "hydra_configs" / "rltf_verl" / "rltf" / "env"
# What only `rltf data build` needs, and what only exotic data needs.
NOT_IN_YAML = {"reasoning_gym": {"task", "params"}, "binary_matrix": {"n_min", "n_max"}}


@pytest.mark.parametrize(
    "name", ["math", "reasoning_gym", "binary_matrix", "reward_function", "code"]
)
def test_options_and_defaults(name: str) -> None:
    written = yaml.safe_load((FOLDER / f"{name}.yaml").read_text("utf-8"))
    options = written.get("env", written)
    assert options.pop("name") == name
    assert name in env_names()
    taken = inspect.signature(type(make_env(name, **options))).parameters
    assert {key: taken[key].default for key in options} == options
    assert taken.keys() - options.keys() == NOT_IN_YAML.get(name, set())
