"""How late a worker's event loop is."""

import asyncio
from time import sleep as hold

import pytest

from rltf_verl.adapters.rollout import loop_lag
from rltf_verl.adapters.rollout.loop_lag import Lags, lag_metrics, quantile, watch_lag


def test_what_holds_the_loop_delays_every_tick_of_its_time():
    """Not one tick only: else the share of late ticks would not be the share of time."""

    async def held(busy: bool) -> Lags:
        lags = Lags()
        watch = asyncio.create_task(watch_lag(lags, lambda: busy))
        await asyncio.sleep(0.05)
        hold(0.5)  # noqa: ASYNC251
        await asyncio.sleep(0.05)
        watch.cancel()
        return lags

    lags = asyncio.run(held(busy=True))
    late = [lag for lag in lags.elements() if lag > 100]
    assert len(late) >= 15
    assert quantile(lags, 1.0) >= 0.4
    assert not asyncio.run(held(busy=False))


def test_the_metrics_are_those_of_all_workers(monkeypatch: pytest.MonkeyPatch):
    answers = [Lags({1: 195, 40: 3}), Lags({300: 2})]
    monkeypatch.setattr(loop_lag.ray, "get", lambda asked, timeout: asked)
    assert lag_metrics(answers) == {
        "rltf/worker/loop_lag_p99_s": 0.04,
        "rltf/worker/loop_lag_s/max": 0.3,
    }
    assert lag_metrics([]) == lag_metrics([Lags()]) == {}
