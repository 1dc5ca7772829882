"""The judge runtime: everything between a question and its answer that can go wrong over the
network.

One object serves one endpoint for a whole job. A call waits for its turn (concurrency, requests and
tokens per minute), is tried again after what may pass, and ends within its deadline: with a reply,
or as `JudgeUnavailable` in one line.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from rltf_verl.judge.cache import ReplyCache, key_of
from rltf_verl.judge.client import (
    ENDPOINT_FAULTS,
    QUESTION,
    TRANSIENT,
    Fault,
    JudgeClient,
)
from rltf_verl.judge.failure_log import FailureLog
from rltf_verl.judge.limits import LEVEL, Breaker, RateLimit, guessed_tokens, possible
from rltf_verl.judge.settings import JudgeSettings
from rltf_verl.judge.stats import Stats
from rltf_verl.judge.wire import Call, JudgeUnavailable, Reply
from rltf_verl.texts import counted

if TYPE_CHECKING:
    from tenacity import RetryCallState

LIFTED_S = 1.0
"""Rest of a pause when another request is answered: the endpoint is not closed."""

HELD_S = 1.0
"""Seconds between two looks at an endpoint that calls wait for."""

_random = random.Random()
T = TypeVar("T")


class JudgeRuntime:
    """Asks one endpoint within one budget. Belongs to one event loop.

    Args:
        settings: endpoint, limits, price, cache.

    Raises:
        ValueError: a package or the API key is missing.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        limits = settings.limits
        self.settings = settings
        self.stats = Stats()
        self._client = JudgeClient(
            settings.endpoint, limits.request_timeout_s, limits.max_reply_bytes
        )
        self.failures = FailureLog(settings.endpoint)
        self._cache = (
            ReplyCache(Path(settings.cache_dir).expanduser()) if settings.cache_dir else None
        )
        self._slots = asyncio.Semaphore(limits.max_concurrency)
        self._turn = asyncio.Lock()
        self._rates = (RateLimit(limits.requests_per_minute), RateLimit(limits.tokens_per_minute))
        self._paused_until = 0.0
        self.longest_pause = min(limits.retry_after_cap_s, limits.deadline_s / 4)
        self.breaker = Breaker(
            limits.breaker_failures, limits.breaker_after_s, limits.breaker_probe_s
        )
        self._asking: dict[str, asyncio.Task[Reply]] = {}
        self._outage: asyncio.Task[None] | None = None

    async def complete(self, call: Call) -> Reply:
        """The answer to a call, within its deadline.

        Equal calls at the same time share one request. Raises JudgeUnavailable.
        """
        body = self.settings.endpoint.body([dict(m) for m in call.messages], call.seed)
        key = key_of(self.settings.endpoint.identity(body, call.seed))
        self.stats.count("calls")
        kept = await self._cache.get(key) if self._cache is not None else None
        if kept is not None:
            self.stats.count("cache_hits")
            return kept
        asked = self._asking.get(key)
        if asked is None:
            asked = asyncio.create_task(self._ask(key, body))
            self._asking[key] = asked
            asked.add_done_callback(lambda task: self._forget(key, task))
            # Shielded: where this caller is cancelled, the others still wait for the task.
            return await asyncio.shield(asked)
        try:
            reply = await asyncio.shield(asked)
        except JudgeUnavailable:
            self.stats.count("failed/with_an_equal_call")
            raise
        self.stats.count("cache_hits")
        return reply

    def note(self, event: str) -> None:
        """Count what the reader of a reply found in it."""
        self.stats.count(f"noted/{event}")

    def snapshot(self) -> dict[str, float]:
        """Metrics since the last snapshot."""
        breaker = {
            "breaker": LEVEL[self.breaker.state],
            "breaker_opened_run": float(self.breaker.num_opened),
        }
        return self.stats.snapshot() | breaker

    async def aclose(self) -> None:
        """Let go of connections, and write what waits for the disk."""
        await self._client.aclose()
        if self._cache is not None:
            await self._cache.close()

    def _forget(self, key: str, task: asyncio.Task[Reply]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # seen: the caller may have gone

    async def _ask(self, key: str, body: dict[str, Any]) -> Reply:
        """A call that is neither cached nor in flight. It ends with a reply or as JudgeUnavailable,
        whatever breaks in here.
        """
        outcome = await self._outcome(body)
        if isinstance(outcome, Fault) and outcome.kind != "refused" and self.settings.waits:
            await self._end_of_outage()
            outcome = await self._outcome(body)
        if isinstance(outcome, Fault):
            self.stats.count(f"failed/{outcome.kind}")
            raise JudgeUnavailable(outcome.what)
        if self._cache is not None:
            await self._cache.put(key, outcome)
        return outcome

    async def _outcome(self, body: dict[str, Any]) -> Reply | Fault:
        if not self.breaker.admit(time.monotonic()):
            return Fault("breaker_open", self._down())
        tries = _Tries(self, body)
        try:
            return await asyncio.wait_for(tries.until_answered(), self.settings.limits.deadline_s)
        except asyncio.TimeoutError:  # not the builtin before Python 3.11
            return self._late(tries)
        except Fault as fault:
            # A busy loop may hear of a fault after the deadline, which it then is.
            if fault.kind in TRANSIENT and tries.seconds_left <= 0:
                return self._late(tries)
            return Fault(fault.kind, self._after_all(fault, tries.num_requests))
        except Exception as error:
            return Fault("internal", f"{type(error).__name__} in the endpoint's runtime")

    def _late(self, tries: _Tries) -> Fault:
        self.failures.gave_up("late" if tries.num_requests else "queue", tries.why_late())
        return Fault("deadline", tries.why_late())

    async def _end_of_outage(self) -> None:
        """Hold a call while the endpoint answers no request. All held calls share one probe."""
        if self._outage is None or self._outage.done():
            self._outage = asyncio.create_task(self._probe())
        await asyncio.shield(self._outage)

    async def _probe(self) -> None:
        """Until the endpoint answers, at most until `outage_s` after the first request that failed.

        The question is not that of a held call: the endpoint may fail at this one only.
        """
        question = self.settings.endpoint.body([QUESTION], seed=0)
        while 0 < self.breaker.down_for(time.monotonic()) < self.settings.limits.outage_s:
            self.failures.away(self._down())
            if self.breaker.admit(time.monotonic()):
                with suppress(Fault):
                    await self.in_turn(question, partial(self.send, question))
            await asyncio.sleep(HELD_S)

    def _down(self) -> str:
        url, seconds = self.settings.endpoint.base_url, self.breaker.down_for(time.monotonic())
        most = self.settings.limits.outage_s * self.settings.waits
        until = f"wait for it, at most {most:g} s"
        calls = until if seconds < most else "fail at once until a probe succeeds"
        return f"{url} has not answered for {seconds:.0f} s; calls {calls}. Start it again"

    def _after_all(self, fault: Fault, num_requests: int) -> str:
        return (
            f"{self.settings.endpoint.base_url} gave no reply in"
            f" {counted(num_requests, 'try', 'tries')}, last failure: {fault}; {fault.fix}"
        )

    async def in_turn(self, body: dict[str, Any], send: Callable[[], Any]) -> Reply:
        """Wait for a slot and for the pace, then send one request."""
        self.stats.enters_queue()
        waiting = True
        try:
            async with self._slots:
                estimate = guessed_tokens(body)
                await self._when_due(estimate)
                self.stats.leaves_queue()
                waiting = False
                reply = possible(await send(), body)
                self.stats.paid(reply, self.settings.price)
                used = reply.prompt_tokens + reply.completion_tokens
                self._rates[1].correct((used or guessed_tokens(body, reply)) - estimate)
                return reply
        finally:
            if waiting:
                self.stats.leaves_queue()

    async def _when_due(self, tokens: float) -> None:
        """Sleep until pauses and paces allow one more request; first come, first served."""
        async with self._turn:
            while (wait := self._wait(time.monotonic())) > 0:  # noqa: ASYNC110  time is what it waits for
                # A pause may end sooner than it was said to.
                await asyncio.sleep(min(wait, LIFTED_S))
            for rate, amount in zip(self._rates, (1.0, tokens), strict=True):
                rate.take(time.monotonic(), amount)

    def _wait(self, now: float) -> float:
        return max(self._paused_until - now, *(rate.wait(now) for rate in self._rates))

    async def send(self, body: dict[str, Any]) -> Reply:
        """One request, counted whatever becomes of it. Raises Fault."""
        self.stats.count("requests")
        self.stats.request_starts()
        limits = self.settings.limits
        # A request that the call's deadline cuts off would say nothing about the endpoint.
        limit = min(limits.request_timeout_s, 0.95 * limits.deadline_s)
        try:
            outcome: Reply | Fault = await asyncio.wait_for(self._client.request(body), limit)
        except asyncio.TimeoutError:  # not the builtin before Python 3.11
            outcome = Fault("timeout", f"no answer in {limit:g} s")
        except asyncio.CancelledError:
            self.stats.count("faults/abandoned")
            raise
        # whatever else a client library raises is a fault like others, never a lost episode
        except Exception as error:
            outcome = Fault("connection", type(error).__name__)
        finally:
            self.stats.request_ends()
        # Raised here, it does not carry what the library raised, which holds the key.
        if isinstance(outcome, Fault):
            raise self._counted(outcome)
        self.stats.count("answered_requests")
        self._is_there()
        self._paused_until = min(self._paused_until, time.monotonic() + LIFTED_S)
        return outcome

    def _is_there(self) -> None:
        """The endpoint answered a request, even if it refused it."""
        if self.breaker.state != "closed":
            self.failures.came_back(self.breaker.down_for(time.monotonic()))
        self.breaker.succeeded()

    def _counted(self, fault: Fault) -> Fault:
        now = time.monotonic()
        self.stats.count(f"faults/{fault.kind}")
        self.failures.failed(fault)
        if fault.kind in ENDPOINT_FAULTS:
            num_opened = self.breaker.num_opened
            self.breaker.failed(now)
            if self.breaker.num_opened > num_opened:
                self.failures.away(self._down())
        else:
            self._is_there()
        if fault.retry_after_s:
            # The endpoint speaks to the client, not to one request: everybody waits, within bounds.
            self._paused_until = max(
                self._paused_until, now + min(fault.retry_after_s, self.longest_pause)
            )
        return fault


class _Tries:
    """One call on its way: its requests, and the waits between them."""

    def __init__(self, runtime: JudgeRuntime, body: dict[str, Any]) -> None:
        self._runtime, self._body = runtime, body
        self._start = time.monotonic()
        self._request_start = self._start
        self._last: Fault | None = None
        self.num_requests = 0

    async def until_answered(self) -> Reply:
        """Raises Fault when another try is pointless or one too many."""
        from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt

        retrying = AsyncRetrying(
            retry=retry_if_exception(self._may_pass),
            wait=self._backoff,
            reraise=True,
            stop=stop_after_attempt(self._runtime.settings.limits.max_attempts),
        )
        reply: Reply = await retrying(self._runtime.in_turn, self._body, self._send)
        now = time.monotonic()
        self._runtime.stats.answered(now - self._start, now - self._request_start)
        return reply

    def _may_pass(self, error: BaseException) -> bool:
        """True if another try makes sense: not if the endpoint is gone, or asks for more time than
        is left.
        """
        if (
            not isinstance(error, Fault)
            or error.kind not in TRANSIENT
            or self._runtime.breaker.state == "open"
        ):
            return False
        return (error.retry_after_s or 0.0) < self.seconds_left

    @property
    def seconds_left(self) -> float:
        """Until the call's deadline."""
        return self._start + self._runtime.settings.limits.deadline_s - time.monotonic()

    def _backoff(self, state: RetryCallState) -> float:
        """Random up to `backoff_s`, doubling from try to try, on top of what the endpoint wants."""
        limits = self._runtime.settings.limits
        fault = state.outcome.exception() if state.outcome else None
        asked = fault.retry_after_s if isinstance(fault, Fault) else None
        longest = min(
            limits.backoff_cap_s, limits.backoff_s * 2.0 ** min(state.attempt_number - 1, 60)
        )
        return min(asked or 0.0, self._runtime.longest_pause) + _random.uniform(0.0, longest)

    async def _send(self) -> Reply:
        self.num_requests += 1
        self._runtime.stats.count("retries", int(self.num_requests > 1))
        self._request_start = time.monotonic()
        try:
            return await self._runtime.send(self._body)
        except Fault as fault:
            self._last = fault
            raise

    def why_late(self) -> str:
        """Cause of the delay, and the fix."""
        limits, url = self._runtime.settings.limits, self._runtime.settings.endpoint.base_url
        if self.num_requests == 0:
            return (
                f"waited {limits.deadline_s:g} s for its turn at {url}; raise"
                f" limits.max_concurrency={limits.max_concurrency}, its rates or deadline_s, or"
                f" serve a faster {self._runtime.settings.endpoint.whose}"
            )
        last, fix = "", "raise limits.deadline_s, or look at the endpoint"
        if self._last is not None:
            last = f", last failure: {self._last}"
            fix = fix if self._last.kind == "timeout" else self._last.fix
        return (
            f"{url} gave no reply within deadline_s={limits.deadline_s:g} in"
            f" {counted(self.num_requests, 'try', 'tries')}{last}; {fix}"
        )


_runtimes: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[JudgeSettings, JudgeRuntime]] = (
    WeakKeyDictionary()
)


def runtime_of(settings: JudgeSettings) -> JudgeRuntime:
    """The running event loop's one runtime for these settings."""
    runtimes = _runtimes.setdefault(asyncio.get_running_loop(), {})
    if settings not in runtimes:
        runtimes[settings] = JudgeRuntime(settings)
    return runtimes[settings]


def run_to_end(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, and at its end the connections of all runtimes of its loop are closed."""

    async def whole() -> T:
        try:
            return await main
        finally:
            for runtime in _runtimes.pop(asyncio.get_running_loop(), {}).values():
                await runtime.aclose()

    return asyncio.run(whole())
