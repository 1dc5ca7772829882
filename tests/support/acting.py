"""Trajectories without a policy: calls go straight to an environment."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rltf_verl.envs.base import Env
from rltf_verl.types import Action, PlayedStep, Problem, Trajectory

OFFICE = f"{Path(__file__).parents[2]}/recipes/agents/office.py:Workspace"
"""An environment with tools and a `solution`, as `rltf.env.name` names it."""


def call(tool: str, **arguments: Any) -> Action:
    return Action("", tool, arguments)


def played(env: Env, problem: Problem, actions: Sequence[Action], state: Any = None) -> Trajectory:
    """One action per step, then an answer without a call; the state stays open."""
    state = env.open(problem, 0) if state is None else state
    steps = [
        PlayedStep(action.text, (action,), (env.step(state, action),), 0, 0) for action in actions
    ]
    return Trajectory((*steps, PlayedStep("done", (), (), 0, 0)), "answered", state)
