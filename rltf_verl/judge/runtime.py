"""The judge runtime: everything between a question and its answer that can go wrong over the
network.

One object serves one endpoint for a whole job. A call waits for its turn (concurrency, requests and
tokens per minute), is tried again after what may pass, and ends within its deadline: with a reply,
or as `JudgeUnavailable` in one line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from rltf_verl.judge.breaker import LEVEL, Breaker
from rltf_verl.judge.cache import ReplyCache, key_of
from rltf_verl.judge.client import OF_THE_ENDPOINT, Fault, JudgeClient, require_packages
from rltf_verl.judge.news import News, fix_of
from rltf_verl.judge.pace import Pace
from rltf_verl.judge.retry import Trying
from rltf_verl.judge.settings import JudgeSettings
from rltf_verl.judge.stats import Stats
from rltf_verl.judge.tokens import guessed_tokens, possible
from rltf_verl.judge.wire import Call, JudgeUnavailable, Reply
from rltf_verl.texts import counted

LIFTED_S = 1.0
"""What is left of a pause when another request is answered: the endpoint is not closed."""


class Client(Protocol):
    """What sends a request: `JudgeClient`."""

    async def request(self, body: dict[str, Any]) -> Reply:
        """One request. Raises Fault."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...


class JudgeRuntime:
    """Asks one endpoint within one budget. Belongs to one event loop.

    Args:
        settings: endpoint, limits, price, cache.
        client: sends the requests; a `JudgeClient` if not given.

    Raises:
        ValueError: a package or the API key is missing.
    """

    def __init__(self, settings: JudgeSettings, client: Client | None = None) -> None:
        require_packages()
        limits = settings.limits
        self.settings = settings
        self.stats = Stats()
        self._client: Client = client or JudgeClient(
            settings.endpoint, limits.request_timeout_s, limits.max_reply_bytes
        )
        self.news = News(settings.endpoint)
        self._cache = (
            ReplyCache(Path(settings.cache_dir).expanduser()) if settings.cache_dir else None
        )
        self._slots = asyncio.Semaphore(limits.max_concurrency)
        self._turn = asyncio.Lock()
        self._paces = (Pace(limits.requests_per_minute), Pace(limits.tokens_per_minute))
        self._paused_until = 0.0
        self.longest_pause = min(limits.retry_after_cap_s, limits.deadline_s / 4)
        self.breaker = Breaker(
            limits.breaker_failures, limits.breaker_after_s, limits.breaker_probe_s
        )
        self._asking: dict[str, asyncio.Task[Reply]] = {}

    async def complete(self, call: Call) -> Reply:
        """The answer to a call, within its deadline.

        Equal calls that come at the same time are asked once. Raises JudgeUnavailable.
        """
        body = self.settings.endpoint.body([dict(m) for m in call.messages], call.seed)
        key = key_of(self.settings.endpoint.identity(body, call.seed))
        self.stats.count("calls")
        known = self._cache.get(key) if self._cache is not None else None
        if known is not None:
            self.stats.count("cache_hits")
            return known
        asked = self._asking.get(key)
        if asked is None:
            asked = asyncio.create_task(self._ask(key, body))
            self._asking[key] = asked
            asked.add_done_callback(lambda task: self._forget(key, task))
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
        """Let go of connections."""
        await self._client.aclose()

    def _forget(self, key: str, task: asyncio.Task[Reply]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # seen: whoever asked may have gone

    async def _ask(self, key: str, body: dict[str, Any]) -> Reply:
        """A call that nobody has asked before."""
        if not self.breaker.admit(time.monotonic()):
            raise self._gives_up("breaker_open", self._down())
        trying = Trying(self, body)
        try:
            reply = await asyncio.wait_for(trying.until_answered(), self.settings.limits.deadline_s)
        except asyncio.TimeoutError:  # not the builtin before Python 3.11
            self.news.gave_up("late" if trying.num_requests else "queue", trying.why_late())
            raise self._gives_up("deadline", trying.why_late()) from None
        except Fault as fault:
            raise self._gives_up(fault.kind, self._after_all(fault, trying.num_requests)) from None
        except (
            Exception
        ) as error:  # a call ends with a reply or as JudgeUnavailable, whatever breaks in here
            raise self._gives_up(
                "internal", f"{type(error).__name__} in the endpoint's runtime"
            ) from None
        if self._cache is not None:
            self._cache.put(key, reply)
        return reply

    def _gives_up(self, kind: str, cause: str) -> JudgeUnavailable:
        self.stats.count(f"failed/{kind}")
        return JudgeUnavailable(cause)

    def _down(self) -> str:
        url, seconds = self.settings.endpoint.base_url, self.breaker.down_for(time.monotonic())
        return (
            f"{url} has not answered for {seconds:.0f} s; calls fail at once until a probe"
            " succeeds. Start it again"
        )

    def _after_all(self, fault: Fault, num_requests: int) -> str:
        return (
            f"{self.settings.endpoint.base_url} gave no reply in"
            f" {counted(num_requests, 'try', 'tries')}, lastly {fault}; {fix_of(fault)}"
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
                used = reply.prompt_tokens + reply.completion_tokens
                self._paces[1].correct((used or guessed_tokens(body, reply)) - estimate)
                return reply
        finally:
            if waiting:
                self.stats.leaves_queue()

    async def _when_due(self, tokens: float) -> None:
        """Sleep until pauses and paces allow one more request; first come, first served."""
        async with self._turn:
            while (wait := self._wait(time.monotonic())) > 0:  # noqa: ASYNC110  time is what it waits for
                await asyncio.sleep(
                    min(wait, LIFTED_S)
                )  # a pause may end sooner than it was said to
            for pace, amount in zip(self._paces, (1.0, tokens), strict=True):
                pace.take(time.monotonic(), amount)

    def _wait(self, now: float) -> float:
        return max(self._paused_until - now, *(pace.wait(now) for pace in self._paces))

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
        except Fault as fault:
            outcome = fault
        except asyncio.CancelledError:
            self.stats.count("faults/abandoned")
            raise
        # whatever else a client library raises is a fault like others, never a lost episode
        except Exception as error:
            outcome = Fault("connection", type(error).__name__)
        finally:
            self.stats.request_ends()
        if isinstance(
            outcome, Fault
        ):  # raised here, it does not carry what the library raised, which holds the key
            raise self._counted(outcome)
        self.stats.count("answered_requests")
        self._is_there()
        self._paused_until = min(self._paused_until, time.monotonic() + LIFTED_S)
        return outcome

    def _is_there(self) -> None:
        """The endpoint answered a request, even if it refused it."""
        if self.breaker.state != "closed":
            self.news.came_back(self.breaker.down_for(time.monotonic()))
        self.breaker.succeeded()

    def _counted(self, fault: Fault) -> Fault:
        now = time.monotonic()
        self.stats.count(f"faults/{fault.kind}")
        self.news.failed(fault)
        if fault.kind in OF_THE_ENDPOINT:
            num_opened = self.breaker.num_opened
            self.breaker.failed(now)
            if self.breaker.num_opened > num_opened:
                self.news.went_away(self._down())
        else:
            self._is_there()
        if fault.retry_after_s:
            # The endpoint speaks to the client, not to one request: everybody waits, within bounds.
            self._paused_until = max(
                self._paused_until, now + min(fault.retry_after_s, self.longest_pause)
            )
        return fault


_runtimes: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[JudgeSettings, JudgeRuntime]] = (
    WeakKeyDictionary()
)


def runtime_of(settings: JudgeSettings) -> JudgeRuntime:
    """The running event loop's one runtime for these settings."""
    runtimes = _runtimes.setdefault(asyncio.get_running_loop(), {})
    if settings not in runtimes:
        runtimes[settings] = JudgeRuntime(settings)
    return runtimes[settings]


class RuntimeOfLoop:
    """Gateway to the runtime of whichever event loop asks."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings

    async def complete(self, call: Call) -> Reply:
        """Raises JudgeUnavailable."""
        return await runtime_of(self._settings).complete(call)

    def note(self, event: str) -> None:
        """Count what the reader of a reply found in it."""
        runtime_of(self._settings).note(event)
