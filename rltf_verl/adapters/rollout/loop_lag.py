"""Delay of a worker's event loop: one episode's computation holds up all others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from rltf_verl.stuck import ended_if_stuck

TICK_S = 0.02
STUCK_S = 900.0
"""Seconds in which no thread of a worker has run."""
PATIENCE_S = 5.0
"""Seconds that the trainer waits for the workers' numbers."""

Lags = Counter[int]
"""Whole milliseconds of lag -> ticks."""


async def watch_lag(lags: Lags, busy: Callable[[], bool]) -> None:
    """Count how late each tick is; a worker whose interpreter is held for ever ends.

    Args:
        lags: counts them.
        busy: whether episodes run; other ticks do not count.
    """
    loop = asyncio.get_running_loop()
    with ended_if_stuck(STUCK_S):
        while True:
            due = loop.time() + TICK_S
            await asyncio.sleep(TICK_S)
            late = loop.time() - due
            # A tick that is 60 ms late held up three more, which are 40, 20 and 0 ms late.
            while busy() and late >= 0:
                lags[int(1000 * late)] += 1
                late -= TICK_S


def quantile(lags: Lags, share: float) -> float:
    """Seconds of lag that this share of the ticks does not exceed."""
    # Ticks with at most this lag, for each lag in rising order.
    reached = accumulate(lags[lag] for lag in sorted(lags))
    least = share * lags.total()
    return (
        next(lag for lag, ticks in zip(sorted(lags), reached, strict=True) if ticks >= least) / 1000
    )


def lag_metrics(asked: Sequence[Any]) -> dict[str, float]:
    """`rltf/worker/…` of all workers together; nothing while no episode ran or no worker answers.

    Args:
        asked: references to the lags of agent-loop workers since the last call.
    """
    lags = Lags()
    with suppress(GetTimeoutError, RayError):
        lags = sum(ray.get(asked, timeout=PATIENCE_S), lags)
    if not lags:
        return {}
    return {
        "rltf/worker/loop_lag_p99_s": quantile(lags, 0.99),
        "rltf/worker/loop_lag_s/max": quantile(lags, 1.0),
    }
