"""How late a worker's event loop is: what one episode computes holds up all others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable

TICK_S = 0.02

Lags = Counter[int]
"""Whole milliseconds of lag -> ticks."""


async def watch_lag(lags: Lags, busy: Callable[[], bool]) -> None:
    """Count how late each tick is.

    Args:
        lags: counts them.
        busy: whether episodes run; other ticks do not count.
    """
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + TICK_S
        await asyncio.sleep(TICK_S)
        late = loop.time() - due
        while busy() and late >= 0:  # and the ticks that this one held up
            lags[int(1000 * late)] += 1
            late -= TICK_S


def quantile(lags: Lags, share: float) -> float:
    """Seconds of lag that this share of the ticks does not exceed."""
    left = share * lags.total()
    for lag in sorted(lags):
        left -= lags[lag]
        if left <= 0:
            break
    return lag / 1000


def lag_metrics(workers: Iterable[Lags]) -> dict[str, float]:
    """`rltf/worker/…` of all workers together; nothing while no episode ran."""
    lags = sum(workers, Lags())
    if not lags:
        return {}
    return {
        "rltf/worker/loop_lag_p99_s": quantile(lags, 0.99),
        "rltf/worker/loop_lag_s/max": max(lags) / 1000,
    }
