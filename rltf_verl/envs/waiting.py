"""Calling an environment from a coroutine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from rltf_verl.envs.base import Env

P = ParamSpec("P")
T = TypeVar("T")


async def call_env(env: Env, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`call(...)`, which grades with `env`: in a thread if the environment is `blocking`, so that others go on."""
    if getattr(env, "blocking", False):
        return await asyncio.to_thread(call, *args, **kwargs)
    return call(*args, **kwargs)
