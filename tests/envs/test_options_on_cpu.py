"""An option that an environment cannot have is one line that names its config key, and
`rltf/env/<name>.yaml` offers what the constructor takes, with the same defaults.
"""

import inspect
from pathlib import Path
from typing import Any

import pytest
import yaml

from rltf_verl.envs import _ENVS, env_names, make_env
from rltf_verl.registry import load


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "binary_matrx",
            {},
            r"rltf\.env\.name='binary_matrx'.*binary_matrix.*Did you mean 'binary_matrix'",
        ),
        (
            "binary_matrix",
            {"nmax": 4},
            r"rltf\.env\.nmax=4: binary_matrix has no option 'nmax'; .*mean 'n_max'",
        ),
        ("binary_matrix", {"mode": "strikt"}, r"rltf\.env\.mode='strikt'.*Did you mean 'strict'"),
        ("binary_matrix", {"style": 3}, r"rltf\.env\.style=3.*compact"),
        (
            "binary_matrix",
            {"style": "compact", "mode": "official"},
            r"rltf\.env\.style=compact.*mode=strict",
        ),
        ("binary_matrix", {"n_min": 1}, r"rltf\.env\.n_min=1: must be in \[2, 100\]"),
        (
            "binary_matrix",
            {"n_min": 4, "n_max": 3},
            r"rltf\.env\.n_max=3: must be at least rltf\.env\.n_min=4",
        ),
        ("knights_knaves", {"n_people": 1}, r"rltf\.env\.n_people=1: must be in \[2, 10\]"),
        ("knights_knaves", {"width": 4, "n_people": 2}, r"rltf\.env\.width=4: must be in \[2, 3\]"),
        (
            "knights_knaves",
            {"mode": "official", "style": "compact"},
            r"rltf\.env\.style='compact' .*rltf\.env\.mode='official'",
        ),
        (
            "shortest_path",
            {"rows_min": 7},
            r"rltf\.env\.rows_max=6: must be at least rltf\.env\.rows_min=7",
        ),
        ("shortest_path", {"p_blocked": float("nan")}, r"rltf\.env\.p_blocked=nan"),
        ("writing", {"low": 5, "high": 5}, r"rltf\.env\.high=5 must be above"),
        ("writing", {"threshold": 11}, r"rltf\.env\.threshold=11"),
        (
            "writing",
            {"judges": [{"endpoint": {"base_url": "x", "model": "m"}}]},
            r"rltf\.env\.judges\[0\]\.endpoint\.base_url='x'",
        ),
        ("code", {"sandbox": "none"}, r"rltf\.env\.sandbox='none'"),
        ("code", {"partial": "yes"}, r"rltf\.env\.partial='yes'"),
        ("code", {"url": "http://x"}, r"rltf\.env\.url='http://x'"),
    ],
)
def test_bad_options_name_the_config_key(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_env(name, **options)


def test_every_environment_has_its_name() -> None:
    others = {"bfcl", "gym_text", "textarena", "tool_object"}  # they need a package or a class
    assert all(make_env(name).name == name for name in {*env_names()} - others)


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
