"""Environments by name. To add one: one folder here, one line below."""

from __future__ import annotations

from typing import Any, cast

from rltf_verl.envs.base import Env
from rltf_verl.registry import construct

_ENVS = {
    "binary_matrix": "rltf_verl.envs.binary_matrix:BinaryMatrix",
    "knights_knaves": "rltf_verl.envs.knights_knaves:KnightsKnaves",
    "math": "rltf_verl.envs.math:Math",
    "reasoning_gym": "rltf_verl.envs.reasoning_gym:ReasoningGym",
    "reward_function": "rltf_verl.envs.reward_function:RewardFunction",
    "shortest_path": "rltf_verl.envs.shortest_path:ShortestPath",
    "writing": "rltf_verl.envs.writing:Writing",
    "code": "rltf_verl.envs.code:Code",
}


def env_names() -> tuple[str, ...]:
    """Names that `make_env` knows, sorted."""
    return tuple(sorted(_ENVS))


def make_env(name: str, /, **options: Any) -> Env:
    """Make the environment `rltf.env.name`, with the other keys of that block as options.

    Raises:
        ValueError: unknown name, or an option it does not have or cannot take; names the config
            key.
    """
    return cast(Env, construct("rltf.env", "name", _ENVS, name, options))
