"""Promises of an environment, tested: `rltf env check`."""

from __future__ import annotations

from functools import partial

from rltf_verl.envs.base import Env
from rltf_verl.envs.calls import DEADLINE_S, bounded
from rltf_verl.registry import with_defaults
from rltf_verl.tools.contract import acting, answers
from rltf_verl.tools.contract.promises import (
    Check,
    Verdict,
    builds_again,
    for_each_problem,
    hostile_texts,
    prompts,
    survives_json,
    verdict_on,
)
from rltf_verl.types import Problem

__all__ = ["Verdict", "check_env", "hostile_texts"]

NUM_PROBLEMS, NUM_HOSTILE = 50, 1000
CHECK_S = 60.0
"""Seconds of a call: a run waits longer, a person at a terminal does not."""


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
    own = with_defaults(env, Env)
    # `limits` are the deadlines of an environment that acts
    env = bounded(own, DEADLINE_S if own.acts else CHECK_S)
    problems: list[Problem] = []
    checks: dict[str, Check] = {
        "build is deterministic": partial(builds_again, env, seed, num_problems),
        "a problem survives JSON": partial(for_each_problem, own, survives_json),
        "prompts are text, and the same each time": partial(
            for_each_problem, own, partial(prompts, env)
        ),
        **(acting if own.acts else answers).checks(own, env, seed, num_hostile),
    }
    verdicts: list[Verdict] = []
    for promise, check in checks.items():
        verdicts.append(verdict_on(own, promise, partial(check, problems)))
        if not problems:  # the first check builds them
            break
    return verdicts
