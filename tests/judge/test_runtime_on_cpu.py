"""The judge runtime against a real HTTP server that misbehaves."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from rltf_verl.judge import runtime as judge_runtime
from rltf_verl.judge.client import Fault
from rltf_verl.judge.runtime import JudgeRuntime, run_to_end, runtime_of
from rltf_verl.judge.settings import Price
from rltf_verl.judge.wire import JudgeUnavailable, Reply
from tests.support.judge.calls import call, settings
from tests.support.judge.server import FAULTS, SAID, SILENT, InThread, JudgeServer


@asynccontextmanager
async def serving(
    server: JudgeServer, *, price: Price | None = None, waits: bool = False, **options: Any
) -> AsyncIterator[JudgeRuntime]:
    async with server:
        wanted = settings(server.url, **options)
        runtime = JudgeRuntime(replace(wanted, price=price or Price(), waits=waits))
        yield runtime
        await runtime.aclose()


async def test_a_reply_with_what_it_cost_and_no_line_of_the_http_library(caplog) -> None:
    caplog.set_level(logging.INFO)
    server = JudgeServer()
    async with serving(server, price=Price(prompt=2.0, completion=10.0)) as runtime:
        assert await runtime.complete(call(seed=5)) == Reply(SAID, True, 100, 20)
        (body,) = server.bodies
        assert body == {
            "model": "m",
            "messages": [{"role": "user", "content": "Is it right?"}],
            "seed": 5,
            "temperature": 0.7,
            "max_tokens": 1024,
        }
        values = runtime.snapshot()
        assert values["cost"] == pytest.approx((100 * 2 + 20 * 10) / 1e6)
        assert (values["calls"], values["failed_share"], values["breaker"]) == (1.0, 0.0, 0.0)
        assert runtime.snapshot()["calls"] == 0, "the next look begins anew"
        assert runtime.snapshot()["cost_run"] == values["cost"]
        assert caplog.messages == []


@pytest.mark.parametrize("fault", [f for f in FAULTS if f not in ("hang", *SILENT)])
async def test_what_may_pass_is_tried_again_and_counted(fault: str) -> None:
    async with serving(JudgeServer(script=[fault, fault])) as runtime:
        assert (await runtime.complete(call())).text == SAID
        counted = runtime.stats.since_start
        assert sum(n for name, n in counted.items() if name.startswith("faults/")) == 2
        assert counted["retries"] == 2


@pytest.mark.parametrize("silence", SILENT)
async def test_a_reply_without_text_is_paid_for_once(silence: str) -> None:
    async with serving(JudgeServer(script=[silence, silence])) as runtime:
        assert await runtime.complete(call()) == Reply("", True, 100, 20)
        assert runtime.stats.since_start["prompt_tokens"] == 100


async def test_a_refusal_is_not_tried_again() -> None:
    server = JudgeServer(key="sk-another")
    async with serving(server) as runtime:
        with pytest.raises(JudgeUnavailable, match=r"1 try, .*refused: HTTP 401"):
            await runtime.complete(call())
    assert len(server.bodies) == 1


async def test_all_calls_obey_a_retry_after_up_to_the_cap() -> None:
    server = JudgeServer(script=["429_retry_after"], retry_after="Retry-After: 3600")
    async with serving(server, retry_after_cap_s=0.5, deadline_s=300.0) as runtime:
        with pytest.raises(JudgeUnavailable, match="rate_limited"):
            await runtime.complete(call(0))
        await asyncio.gather(*(runtime.complete(call(i)) for i in range(1, 9)))
    assert min(server.arrivals[1:]) - server.arrivals[0] >= 0.45


async def test_the_deadline_holds_in_the_queue_and_on_the_way() -> None:
    hanging = JudgeServer(script=["hang"] * 3)
    async with serving(hanging, max_concurrency=1, deadline_s=0.5) as runtime:
        outcomes = await asyncio.gather(
            *(runtime.complete(call(i)) for i in range(3)), return_exceptions=True
        )
        assert "gave no reply within deadline_s=0.5 in 1 try" in str(outcomes[0])
        assert "waited 0.5 s for its turn" in str(outcomes[2])
        assert runtime.stats.since_start["failed/deadline"] == 3
        assert (runtime.stats.in_flight, runtime.stats.waiting) == (0, 0)


def at_each_fault(monkeypatch: pytest.MonkeyPatch, happens: Callable[[JudgeRuntime], None]) -> None:
    """At the moment when a fault has been counted."""
    counted = JudgeRuntime._counted

    def count(self: JudgeRuntime, fault: Fault) -> Fault:
        fault = counted(self, fault)
        happens(self)
        return fault

    monkeypatch.setattr(JudgeRuntime, "_counted", count)


async def test_a_fault_that_is_heard_of_after_the_deadline_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop is held up between the request's limit and the deadline."""
    at_each_fault(monkeypatch, lambda runtime: time.sleep(0.2))
    async with serving(JudgeServer(script=["hang"]), deadline_s=0.5) as runtime:
        with pytest.raises(JudgeUnavailable, match=r"within deadline_s=0\.5 in 1 try"):
            await runtime.complete(call(0))
        assert runtime.stats.since_start["failed/deadline"] == 1


async def test_no_more_requests_at_once_than_allowed_and_connections_are_used_again() -> None:
    server = JudgeServer(latency=lambda rng: 0.02)
    async with serving(server, max_concurrency=4) as runtime:
        await asyncio.gather(*(runtime.complete(call(i)) for i in range(40)))
        values = runtime.snapshot()
        assert server.peak == values["in_flight/max"] == 4
        assert server.num_connections <= 4
        assert values["queue/max"] == 36


async def test_a_caller_that_gives_up_does_not_take_others_with_it() -> None:
    async with serving(JudgeServer(latency=lambda rng: 0.2)) as runtime:
        gone, stays = (asyncio.create_task(runtime.complete(call())) for _ in range(2))
        await asyncio.sleep(0.05)
        gone.cancel()
        assert (await stays).text == SAID


async def test_the_cache_outlives_the_runtime(tmp_path) -> None:
    async with serving(JudgeServer(), cache_dir=tmp_path) as runtime:
        first = await runtime.complete(call())
    server = JudgeServer()
    async with serving(server, cache_dir=tmp_path) as runtime:
        again = await runtime.complete(call())
        assert (again.text, again.cached, first.cached) == (SAID, True, False)
        assert not server.bodies
        assert runtime.snapshot()["cache_hit_share"] == 1.0


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize(
    ("endpoint", "num"),
    [({"temperature": 0}, 1), ({"send_seed": False, "temperature": 0.7}, 3)],
    ids=["without temperature the seed makes no difference", "each seed is another opinion"],
)
async def test_equal_calls_at_the_same_time_are_one_request(
    tmp_path, endpoint: dict[str, Any], num: int, cached: bool
) -> None:
    server = JudgeServer(latency=lambda rng: 0.05)
    cache_dir = tmp_path if cached else None
    async with serving(server, endpoint=endpoint, cache_dir=cache_dir) as runtime:
        replies = await asyncio.gather(*(runtime.complete(call(seed)) for seed in (1, 2, 3, 3)))
        assert len(server.bodies) == num
        assert not any("seed" in body for body in server.bodies)
        assert {reply.text for reply in replies} == {SAID}
        assert runtime.stats.since_start["cache_hits"] == 4 - num


async def test_an_endpoint_that_hangs_opens_the_breaker_whatever_the_time_for_a_request() -> None:
    limits = {"deadline_s": 0.1, "request_timeout_s": 60.0, "breaker_failures": 3}
    limits |= {"breaker_after_s": 0.0, "breaker_probe_s": 600.0}
    async with serving(JudgeServer(faults=["hang"], fault_share=1.0), **limits) as runtime:
        # One whose time is over before it is sent says nothing.
        for seed in range(600):
            if runtime.breaker.state != "open":
                with pytest.raises(JudgeUnavailable):
                    await runtime.complete(call(seed))
        assert runtime.breaker.state == "open"
        assert runtime.stats.since_start["calls"] >= 3


async def test_the_breaker_opens_lets_a_probe_through_and_closes() -> None:
    server, limits = JudgeServer(), {"breaker_failures": 3, "breaker_after_s": 0.0}
    async with serving(server, breaker_probe_s=600.0, max_attempts=3, **limits) as runtime:
        await server.stop()
        with pytest.raises(JudgeUnavailable, match=r"3 tries, .*connection: "):
            await runtime.complete(call(0))
        with pytest.raises(JudgeUnavailable, match="calls fail at once"):
            await runtime.complete(call(1))
        assert runtime.snapshot()["breaker"] == 1.0
        ten_minutes_later(runtime)
        with pytest.raises(JudgeUnavailable, match="in 1 try"):
            await runtime.complete(call(2))
        assert runtime.breaker.state == "open", "a probe that fails is tried once"
        await server.start()
        ten_minutes_later(runtime)
        assert (await runtime.complete(call(3))).text == SAID
        assert (runtime.breaker.state, runtime.breaker.num_opened) == ("closed", 1)


WAITS = {"waits": True, "breaker_failures": 2, "breaker_after_s": 0.0, "breaker_probe_s": 0.05}


@pytest.fixture
def _quick(monkeypatch) -> None:
    monkeypatch.setattr(judge_runtime, "HELD_S", 0.02)


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("num", [1000, 4000])
async def test_when_a_judge_comes_back_all_limits_hold_and_no_held_call_is_lost(num: int) -> None:
    server = JudgeServer(latency=lambda rng: 0.01, keep_bodies=False)
    # No answer is late, however busy the machine is.
    patient = {"max_attempts": 1, "deadline_s": 900.0, "request_timeout_s": 300.0}
    async with serving(server, price=Price(prompt=1e4), **WAITS, **patient) as runtime:
        await server.stop()
        calls = [asyncio.create_task(runtime.complete(call(seed))) for seed in range(num)]
        stats = runtime.stats
        # each has asked in vain, and is held
        while stats.since_start["requests"] < num + 1 or stats.waiting:
            await asyncio.sleep(0.02)
            assert not calls[-1].done(), "held, however long"
        await server.start()
        assert {reply.text for reply in await asyncio.gather(*calls)} == {SAID}
        assert len(server.arrivals) == num + 1, "one probe"
        values = runtime.snapshot()
        assert server.peak <= values["in_flight/max"] == 64
        assert stats.cost == pytest.approx(num + 1), "the probe is paid for too"
        assert (values["calls"], values["failed_share"], values["breaker"]) == (num, 0.0, 0.0)


async def test_a_request_that_hangs_while_others_are_answered_waits_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_each_fault(monkeypatch, JudgeRuntime._is_there)  # then another call is answered
    patience = {"max_attempts": 1, "request_timeout_s": 0.3}
    async with serving(JudgeServer(script=["hang"]), **WAITS, **patience) as runtime:
        assert (await runtime.complete(call())).text == SAID
        assert runtime.stats.since_start["faults/timeout"] == 1


@pytest.mark.usefixtures("_quick")
async def test_calls_wait_for_one_outage_no_longer_than_it_may_last(caplog) -> None:
    server = JudgeServer()
    async with serving(server, outage_s=0.5, **WAITS) as runtime:
        await server.stop()
        with pytest.raises(JudgeUnavailable):
            await runtime.complete(call(0))
        assert runtime.breaker.down_for(time.monotonic()) >= 0.5
        runtime.breaker._next_probe += 600
        with pytest.raises(JudgeUnavailable, match="calls fail at once"):
            await runtime.complete(call(1))
    assert sum("calls wait for it" in line for line in caplog.messages) == 1, "a line a minute"


@pytest.mark.usefixtures("_quick")
async def test_a_call_at_which_the_endpoint_always_breaks_is_not_waited_for() -> None:
    def answer(body: dict[str, Any]) -> str:
        if "poison" in body["messages"][0]["content"]:
            raise ConnectionError
        return SAID

    limits = {"outage_s": 3600.0, "max_attempts": 3}
    async with serving(JudgeServer(reply=answer), **limits, **WAITS) as runtime:
        with pytest.raises(JudgeUnavailable, match="last failure"):
            await asyncio.wait_for(runtime.complete(call(text="poison")), 60)
        assert (await runtime.complete(call())).text == SAID


async def test_the_log_tells_each_kind_of_failure_once_and_when_the_breaker_turns(caplog) -> None:
    server = JudgeServer(script=["500", "html", "500", "html", "429"])
    async with serving(server, breaker_failures=3, breaker_after_s=0.0, max_attempts=9) as runtime:
        url = runtime.settings.endpoint.base_url
        with pytest.raises(JudgeUnavailable, match="server_error"):
            await runtime.complete(call(0))
        ten_minutes_later(runtime)
        with pytest.raises(JudgeUnavailable, match="bad_reply"):
            await runtime.complete(call(1))
        ten_minutes_later(runtime)
        await runtime.complete(call(2))
        assert "rate_limited: HTTP 429" in runtime.failures.last
    kinds = ("server_error: HTTP 500", "bad_reply", "calls fail at once", "rate_limited", "answers")
    for line, kind in zip(caplog.messages, kinds, strict=True):
        assert line.startswith(f"judge: {url}")
        assert kind in line


@pytest.mark.parametrize("fault", ["html", "no_choices"])
async def test_a_late_call_names_what_came_instead(fault: str) -> None:
    waits = {"backoff_s": 60.0, "backoff_cap_s": 60.0}
    async with serving(JudgeServer(script=[fault]), deadline_s=0.6, **waits) as runtime:
        with pytest.raises(JudgeUnavailable, match=r"deadline_s=0\.6 .*bad_reply: "):
            await runtime.complete(call())


def ten_minutes_later(runtime: JudgeRuntime) -> None:
    """For the breaker: the next probe is due."""
    runtime.breaker._next_probe -= 600


def test_a_loop_that_ends_leaves_no_connection() -> None:
    async def ask(url: str) -> tuple[Reply, JudgeRuntime]:
        runtime = runtime_of(settings(url))
        return await runtime.complete(call()), runtime

    with InThread(JudgeServer()) as thread:
        reply, runtime = run_to_end(ask(thread.server.url))
        assert reply.text == SAID
        session = runtime._client._session
        assert session is not None
        assert session.closed
