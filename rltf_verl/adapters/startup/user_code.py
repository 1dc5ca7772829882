"""A user's own code, called before a run: first in a process that may die, then for its rows."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from typing import Any, NoReturn, cast

from omegaconf import DictConfig, OmegaConf

from rltf_verl.adapters.startup.budget import first_prompt
from rltf_verl.adapters.startup.files import user_code
from rltf_verl.adapters.startup.model import Model
from rltf_verl.adapters.startup.rules import rltf_of
from rltf_verl.data.schema import files_of, first_rows, problem_of
from rltf_verl.envs.calls import grade_text, tools_of
from rltf_verl.envs.dry_run import DryRun, OutOfTimeError
from rltf_verl.episode.parts import Parts
from rltf_verl.episode.placeholders import CRITIQUE, with_placeholders
from rltf_verl.episode.run import EpisodePlayer
from rltf_verl.episode.seeds import place_of
from rltf_verl.findings import Finding
from rltf_verl.judge.runtime import run_to_end
from rltf_verl.objectives import Method
from rltf_verl.objectives.dry_run import own_failures
from rltf_verl.objectives.rows import episode_rows
from rltf_verl.objectives.user_code import OwnCodeError
from rltf_verl.registry import load

DEADLINE_S = 90.0
"""Seconds of each call in a process that may die. A slow grader needs several."""
RETURNED = 86
"""Exit status of a process whose call returned or raised."""


def fatal_code(config: DictConfig, dry_run: DryRun) -> Finding | None:
    """The user's code that ends or blocks its process, which no `except` can catch. What it
    raises is left to the checks in this process.
    """
    code = user_code(config)
    calls = [(key, partial(load, key, where)) for key, where in code.items()]
    if calls:
        key = next((key for key in code if key.startswith("rltf.env.")), [*code][-1])
        calls.append((key, partial(_call, config)))
    with dry_run.explained("your own code"):
        for key, call in calls:
            why = _why_fatal(call)
            if why is not None:
                return Finding(key, code[key], why, "let it return or raise")
    return None


def _call(config: DictConfig) -> None:
    """Grade an answer, and let the objectives try themselves."""
    parts = Parts.of(rltf_of(config))
    method = Method(parts.config)
    for objective in method.objectives:
        list(objective.refusals(partial(OmegaConf.select, config), parts.provider))
    list(own_failures(method, int(config.actor_rollout_ref.rollout.n)))
    (row,) = first_rows(files_of(config.data.train_files)[0], 1)
    grade_text(parts.env, problem_of(parts.env, row), "")


def _why_fatal(call: Callable[[], object]) -> str | None:
    """How a call ends or blocks its own process; None if it returns or raises."""
    process = get_context("fork").Process(target=_call_silently, args=(call,))
    process.start()
    process.join(DEADLINE_S)
    late = process.is_alive()  # asked before the kill, which ends it too
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(cast(int, process.pid), signal.SIGKILL)  # with what the call has started
    process.join()
    if late:
        return f"does not return in {DEADLINE_S:g} s"
    return None if process.exitcode == RETURNED else f"ends its process ({process.exitcode})"


def _call_silently(call: Callable[[], object]) -> NoReturn:
    """In the new process, which leaves no output."""
    # A group of its own, which `_why_fatal` kills with all that the call has started.
    os.setpgid(0, 0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    with suppress(BaseException):  # checked again where it can be named
        call()
    os._exit(RETURNED)


FIRST, LATER, CRITIC = range(3)
"""Seeds: one for each place of an episode."""


def check_own_rows(config: DictConfig, parts: Parts, model: Model, dry_run: DryRun) -> None:
    """Raise OwnCodeError if an own objective makes no rows of an episode of the first problem.
    Other failures are left to the checks of the code that fails.
    """
    own_data = OmegaConf.select(config, "data.custom_cls.path") is not None
    method = Method(parts.config)
    if own_data or not method.user_objectives:
        return
    try:
        with dry_run.timed():
            run_to_end(_make_rows(config, parts, method, model))
    except OwnCodeError:
        raise
    except OutOfTimeError:
        dry_run.left_out.append("the rows of your own objectives")
    except Exception:  # environments, providers and templates are user code
        return


async def _make_rows(config: DictConfig, parts: Parts, method: Method, model: Model) -> None:
    # here, because it loads verl's agent loops
    from rltf_verl.adapters.startup.scripted_policy import ScriptedVerlPolicy

    (row,) = first_rows(files_of(config.data.train_files)[0], 1)
    problem, messages = problem_of(parts.env, row), first_prompt(row)
    unrecorded = replace(parts.config.feedback, record_dir=None)
    acting, _ = with_placeholders(Parts.of(replace(parts.config, feedback=unrecorded)))
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
    return FIRST if place.partition(".")[0] == place_of(0) else LATER
