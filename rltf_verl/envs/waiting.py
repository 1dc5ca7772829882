"""Calling an environment from a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from rltf_verl.envs.base import Env, GradesAsync
from rltf_verl.types import Grade, Problem

P = ParamSpec("P")
T = TypeVar("T")


MOST_READ = 2**18
"""Characters of an answer that are graded, its last ones: more than 60 000 tokens of prose."""


async def call_env(env: Env, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`call(...)`, which grades with `env`: in a thread if the environment is `blocking`, so that
    others go on.
    """
    if getattr(env, "blocking", False):
        return await asyncio.to_thread(call, *args, **kwargs)
    return call(*args, **kwargs)


def graded_part(text: str) -> str:
    """What of an answer graders and `explain` get to see: all but the beginning of one without an
    end.
    """
    return text[-MOST_READ:]


async def grade(env: Env, problem: Problem, text: str) -> Grade:
    """The environment's verdict, in whichever way it is had. Raises GradeUnavailable, and whatever
    a grader raises.
    """
    text = graded_part(text)
    if isinstance(env, GradesAsync):
        return await env.agrade(problem, text)
    return await call_env(env, env.grade, problem, text)
