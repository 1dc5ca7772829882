"""Feedback that takes its time: a judge without a network, for `scale.py`."""

from __future__ import annotations

import asyncio

from rltf_verl.feedback.base import FeedbackRequest
from rltf_verl.types import Feedback


class Slow:
    """Says the same after `latency_s` seconds, to `concurrency` episodes of a worker at once."""

    name = "slow"
    sees_reference = False
    constant = True

    def __init__(self, latency_s: float = 0.0, concurrency: int = 1024) -> None:
        self.latency_s = latency_s
        self.free = asyncio.Semaphore(concurrency)

    async def feedback(self, request: FeedbackRequest) -> Feedback:
        """The fixed sentence."""
        async with self.free:
            await asyncio.sleep(self.latency_s)
        return Feedback("0 1 0\n1 0 1\n0 1 0", self.name)
