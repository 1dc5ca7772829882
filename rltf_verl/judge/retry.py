"""A judge's retries: which fault is tried again, after how long, and what is said in the end."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

from rltf_verl.judge.client import TRANSIENT, Fault
from rltf_verl.judge.news import fix_of
from rltf_verl.judge.wire import Reply
from rltf_verl.texts import counted

if TYPE_CHECKING:
    from tenacity import RetryCallState

    from rltf_verl.judge.runtime import JudgeRuntime

_random = random.Random()


class Trying:
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
        price = self._runtime.settings.price.of(reply.prompt_tokens, reply.completion_tokens)
        now = time.monotonic()
        self._runtime.stats.answered(
            now - self._start,
            now - self._request_start,
            reply.prompt_tokens,
            reply.completion_tokens,
            price,
        )
        return reply

    def _may_pass(self, error: BaseException) -> bool:
        """Whether another try makes sense: not if the endpoint is gone, or asks for more time than
        is left.
        """
        if (
            not isinstance(error, Fault)
            or error.kind not in TRANSIENT
            or self._runtime.breaker.state == "open"
        ):
            return False
        left = self._start + self._runtime.settings.limits.deadline_s - time.monotonic()
        return (error.retry_after_s or 0.0) < left

    def _backoff(self, state: RetryCallState) -> float:
        """Random up to `backoff_s`, doubling from try to try, on top of what the endpoint asked
        for.
        """
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
        """What took so long, and what to change."""
        limits, url = self._runtime.settings.limits, self._runtime.settings.endpoint.base_url
        if self.num_requests == 0:
            return (
                f"waited {limits.deadline_s:g} s for its turn at {url}; raise"
                f" limits.max_concurrency={limits.max_concurrency}, its rates or deadline_s, or"
                f" serve a faster {self._runtime.settings.endpoint.whose}"
            )
        last, fix = "", "raise limits.deadline_s, or look at the endpoint"
        if self._last is not None:
            last = f", lastly {self._last}"
            fix = fix if self._last.kind == "timeout" else fix_of(self._last)
        return (
            f"{url} gave no reply within deadline_s={limits.deadline_s:g} in"
            f" {counted(self.num_requests, 'try', 'tries')}{last}; {fix}"
        )
