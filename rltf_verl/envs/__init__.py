"""Environments by name. To add one: one folder here, one line below."""

from __future__ import annotations

from typing import Any

from rltf_verl.envs.base import Env
from rltf_verl.registry import UnknownOptionError, construct

_ENVS = {
    "binary_matrix": "rltf_verl.envs.binary_matrix.env:BinaryMatrix",
    "corrections": "rltf_verl.envs.corrections:Corrections",
    "gym_text": "rltf_verl.envs.gym_text:GymText",
    "instructions": "rltf_verl.envs.instructions.env:Instructions",
    "knights_knaves": "rltf_verl.envs.knights_knaves.env:KnightsKnaves",
    "math": "rltf_verl.envs.math.env:Math",
    "reasoning_gym": "rltf_verl.envs.reasoning_gym.env:ReasoningGym",
    "reward_function": "rltf_verl.envs.reward_function:RewardFunction",
    "shortest_path": "rltf_verl.envs.shortest_path.env:ShortestPath",
    "textarena": "rltf_verl.envs.textarena:TextArena",
    "tool_object": "rltf_verl.envs.gym_text:ToolObject",
    "writing": "rltf_verl.envs.writing.env:Writing",
    "code": "rltf_verl.envs.code.env:Code",
}

SCHEMAS = 'must be schemas: {"function": {"name": …, "parameters": {"properties": {…}}}}'
PRESET_OPTIONS = ("mode", "style")
"""Options that a run has without `rltf/env=own`: those of `rltf/env/binary_matrix.yaml`."""


def env_names() -> tuple[str, ...]:
    """Names that `make_env` knows, sorted."""
    return tuple(sorted(_ENVS))


def make_env(name: str, /, **options: Any) -> Env:
    """Make the environment `rltf.env.name`, with the other keys of that block as options.

    Raises:
        ValueError: unknown name, or an option it does not have or cannot take; names the config
            key.
    """
    if name.endswith(".py"):
        raise ValueError(f"rltf.env.name={name}: name the class in it too, e.g. {name}:Mine")
    try:
        made = construct("rltf.env", "name", _ENVS, name, options, Env)
    except UnknownOptionError as error:
        if ":" not in name or error.option not in PRESET_OPTIONS:
            raise
        raise ValueError(
            f"{error} Add rltf/env=own, which leaves out the options of the presets' environment."
        ) from None
    try:
        for tool in made.tools:
            dict(tool["function"]["parameters"]["properties"], name="" + tool["function"]["name"])
    except (TypeError, ValueError, KeyError) as error:
        raise ValueError(f"rltf.env.name={name}: `tools` {SCHEMAS}") from error
    return made
