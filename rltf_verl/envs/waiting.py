"""Calling an environment from a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from rltf_verl.envs.base import Env, GradesAsync
from rltf_verl.types import Grade, Problem

P = ParamSpec("P")
T = TypeVar("T")


async def call_env(env: Env, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`call(...)`, which grades with `env`: in a thread if the environment is `blocking`, so that others go on."""
    if getattr(env, "blocking", False):
        return await asyncio.to_thread(call, *args, **kwargs)
    return call(*args, **kwargs)


async def grade(env: Env, problem: Problem, text: str) -> Grade:
    """The environment's verdict, in whichever way it is had. Raises GradeUnavailable, and whatever a grader raises."""
    if isinstance(env, GradesAsync):
        return await env.agrade(problem, text)
    return await call_env(env, env.grade, problem, text)
