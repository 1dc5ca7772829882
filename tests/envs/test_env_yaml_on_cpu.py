"""`rltf/env/<name>.yaml` offers what the environment's constructor takes, with the same
defaults.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import yaml

from rltf_verl.envs import _ENVS, env_names
from rltf_verl.registry import load

FOLDER = Path(__file__).parents[2] / "hydra_configs" / "rltf_verl" / "rltf" / "env"
# What only `rltf data build` needs, and what only exotic data needs.
NOT_IN_YAML = {"reasoning_gym": {"task", "params"}, "binary_matrix": {"n_min", "n_max"}}


NAMES = (
    *("math", "reasoning_gym", "binary_matrix", "reward_function", "code"),
    *("workspace", "gym_text", "tool_object", "textarena", "bfcl"),
)


@pytest.mark.parametrize("name", NAMES)
def test_options_and_defaults(name: str) -> None:
    written = yaml.safe_load((FOLDER / f"{name}.yaml").read_text("utf-8"))
    options = written.get("env", written)
    assert options.pop("name") == name
    assert name in env_names()
    taken = inspect.signature(load("rltf.env.name", _ENVS[name])).parameters
    defaults = {key: taken[key].default for key in options}
    needed = {key: "???" for key in options if defaults[key] is inspect.Parameter.empty}
    assert {**defaults, **needed} == {
        key: tuple(value) if isinstance(defaults[key], tuple) else value
        for key, value in options.items()
    }
    assert taken.keys() - options.keys() == NOT_IN_YAML.get(name, set())
