"""The rows of a user's own objectives, made of an episode before a run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.startup.budget import first_prompt
from rltf_verl.adapters.startup.model import Model
from rltf_verl.data.schema import files_of, first_rows, problem_of
from rltf_verl.envs.trials import OutOfTimeError, Trials
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.placeholders import CRITIQUE, ahead
from rltf_verl.episode.run import run_episode
from rltf_verl.episode.seeds import place_of
from rltf_verl.objectives import own_objectives
from rltf_verl.objectives.own import OwnCodeError
from rltf_verl.objectives.rows import episode_rows

FIRST, LATER, CRITIC = range(3)
"""Seeds: what is said at each place of an episode."""


def check_own_rows(config: DictConfig, parts: Parts, model: Model, trials: Trials) -> None:
    """Raise OwnCodeError if an own objective makes no rows of an episode of the first problem. What
    else fails there is said by the checks of whoever fails.
    """
    own_data = OmegaConf.select(config, "data.custom_cls.path") is not None
    if own_data or not own_objectives(parts.config):
        return
    try:
        with trials.timed():
            asyncio.run(_make_rows(config, parts, model))
    except OwnCodeError:
        raise
    except OutOfTimeError:
        trials.left_out.append("the rows of your own objectives")
    except Exception:  # environments, providers and templates are user code
        return


async def _make_rows(config: DictConfig, parts: Parts, model: Model) -> None:
    # here, because it loads verl's agent loops
    from rltf_verl.adapters.plan.policy import ToldPolicy

    (row,) = first_rows(files_of(config.data.train_files)[0], 1)
    problem, messages = problem_of(parts.env, row), first_prompt(row)
    unrecorded = replace(parts.config.feedback, record_dir=None)
    acting, _ = ahead(Parts.of(replace(parts.config, feedback=unrecorded)))
    policy: Any = ToldPolicy(config, model)
    for later in ("", problem.reference):
        policy.tell({FIRST: "", LATER: later, CRITIC: f"Critique: {CRITIQUE}"})
        episode = await run_episode(
            acting, policy, problem, messages, session_id=0, validate=False, seed_of=_seed_of
        )
        await episode_rows(policy, messages, episode, acting.config)


def _seed_of(place: str) -> int:
    if "/" in place:
        return CRITIC
    return FIRST if place.partition(".")[0] == place_of(0) else LATER
