"""The rows of a user's own objectives, made once before a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig

from rltf_verl.adapters.startup.model import Model
from rltf_verl.adapters.startup.scripted_policy import ScriptedVerlPolicy
from rltf_verl.data.questions import QuestionRow
from rltf_verl.envs.calls import tools_of
from rltf_verl.envs.dry_run import DryRun, OutOfTimeError
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.placeholders import CRITIQUE, with_placeholders
from rltf_verl.episode.run import EpisodePlayer
from rltf_verl.episode.seeds import place_of
from rltf_verl.findings import Finding, finding_of
from rltf_verl.judge.runtime import run_to_end
from rltf_verl.objectives import Method
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.objectives.user_code import OwnCodeError

FIRST, LATER, CRITIC = range(3)
"""Seeds: one for each place of an episode."""


def check_own_rows(
    config: DictConfig, parts: Parts, question: QuestionRow, model: Model, dry_run: DryRun
) -> Iterator[Finding]:
    """Own objectives that make no rows of an episode of a question. Other failures are left to the
    checks of the code that fails.
    """
    try:
        method = Method(parts.config)
        if not method.user_objectives:
            return
        with dry_run.timed():
            run_to_end(_make_rows(config, parts, question, method, model))
    except OwnCodeError as error:
        yield finding_of(error)
    except OutOfTimeError:
        dry_run.left_out.append("the rows of your own objectives")
    except Exception:  # environments, providers and templates are user code
        return


async def _make_rows(
    config: DictConfig, parts: Parts, question: QuestionRow, method: Method, model: Model
) -> None:
    problem, messages = question.problem, list(question.messages)
    acting, _ = with_placeholders(Parts.of(parts.config))
    policy: Any = ScriptedVerlPolicy(config, model, tools_of(parts.env))
    # A wrong second answer, and a right one: objectives may make rows of either.
    for later in ("", problem.reference):
        policy.tell({FIRST: "", LATER: later, CRITIC: f"Critique: {CRITIQUE}"})
        episode = await EpisodePlayer(
            acting, policy, problem, messages, session_id=0, validate=False, seed_of=_seed_of
        ).play()
        await episode_rows(policy, messages, episode, method)


def _seed_of(place: str) -> int:
    if "/" in place:
        return CRITIC
    return FIRST if place == place_of(0) else LATER
