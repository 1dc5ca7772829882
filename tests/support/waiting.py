"""Wait for what another task, thread or process does."""

import asyncio
import time
from collections.abc import Callable

Condition = Callable[[], object]


async def until(condition: Condition) -> None:
    """Return when it holds; other tasks go on. Raises TimeoutError after a minute."""
    await asyncio.to_thread(block_until, condition)


def block_until(condition: Condition) -> None:
    """Return when it holds. Raises TimeoutError after a minute."""
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen within a minute")
        time.sleep(0.02)
