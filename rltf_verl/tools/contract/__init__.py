"""Promises of an environment, tested: `rltf env check`."""

from __future__ import annotations

from rltf_verl.envs.base import Env
from rltf_verl.registry import with_defaults
from rltf_verl.tools.contract.acting import check_acting
from rltf_verl.tools.contract.answers import (
    NUM_HOSTILE,
    NUM_PROBLEMS,
    Verdict,
    check_answering,
    hostile_texts,
)

__all__ = ["Verdict", "check_env", "hostile_texts"]


def check_env(
    env: Env,
    seed: int = 0,
    num_problems: int = NUM_PROBLEMS,
    num_hostile: int = NUM_HOSTILE,
) -> list[Verdict]:
    """Hold an environment against its contract, on its own problems and on hostile texts.

    Args:
        env: the environment.
        seed: of the problems and of the texts.
        num_problems: training problems to look at; a tenth of them, at least one, as test problems.
        num_hostile: texts that no answer looks like, or actions, spread over the problems.
    """
    env = with_defaults(env, Env)
    if env.acts:
        return check_acting(env, seed, num_problems, num_hostile)
    return check_answering(env, seed, num_problems, num_hostile)
