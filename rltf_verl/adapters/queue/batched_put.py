"""Entries of many episodes in one put: each put is five messages between three processes, whatever
it holds.

verl 0.9.1 (`trainer/ppo/v1/agent_loop_tq.py`) puts the rows of every episode, and the status of
every prompt, by itself. `BatchedPuts` replaces that module's `tq`: a put returns when its entry is
stored, as before, but entries that arrive together are stored together, and so are those that
arrive during another put. A thread makes the tensors and stores them: the rows of a thousand
episodes take a second, in which the others would wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from types import ModuleType
from typing import Any

Fields = Sequence[Mapping[str, Any]]
"""The columns of each row."""

LINGER_S = 0.005
"""Seconds that a put waits for others: a decoding step."""


@dataclass
class _Entry:
    keys: list[str]
    partition: str
    rows: Fields | None
    tags: list[dict[str, Any]]
    stored: asyncio.Future[None]

    @property
    def kind(self) -> Hashable:
        """Entries of one kind may be put together."""
        # All rows of a TensorDict have the same columns; entries of tags alone have no row.
        columns = None if self.rows is None else frozenset(chain.from_iterable(self.rows))
        return self.partition, columns


class BatchedPuts:
    """TransferQueue's module for one event loop, with puts that are gathered.

    Args:
        queue: the module `transfer_queue`.
        to_tensors: makes a TensorDict of rows.
    """

    def __init__(self, queue: ModuleType, to_tensors: Callable[[Fields], Any]) -> None:
        self._queue, self._to_tensors = queue, to_tensors
        self._entries: list[_Entry] = []
        self._writer: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "puts")  # that of graders may be full of slow ones

    def __getattr__(self, name: str) -> Any:
        """Everything else as it is."""
        return getattr(self._queue, name)

    async def async_kv_put(self, key: str, partition_id: str, tag: dict[str, Any]) -> None:
        """Store the tag of a key."""
        await self._put([key], partition_id, None, [tag])

    async def async_kv_batch_put(
        self, keys: list[str], partition_id: str, fields: Fields, tags: list[dict[str, Any]]
    ) -> None:
        """Store rows and their tags."""
        await self._put(keys, partition_id, fields, tags)

    async def _put(
        self, keys: list[str], partition: str, rows: Fields | None, tags: list[dict[str, Any]]
    ) -> None:
        stored = asyncio.get_running_loop().create_future()
        self._entries.append(_Entry(keys, partition, rows, tags, stored))
        # No lock: all of this runs in one event loop, and nothing between here and `await` yields.
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        await stored

    async def _write(self) -> None:
        while self._entries:
            await asyncio.sleep(LINGER_S)
            entries, self._entries = self._entries, []
            for together in _by_kind(entries):
                await self._store(together)

    async def _store(self, entries: Sequence[_Entry]) -> None:
        """Store them together; if that fails, one by one, so that no entry fails for another."""
        try:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, self._send, entries)
        except Exception as error:
            # An entry fails only if it fails alone.
            if len(entries) > 1:
                for entry in entries:
                    await self._store([entry])
            elif not entries[0].stored.done():
                entries[0].stored.set_exception(error)
            return
        for entry in entries:
            if not entry.stored.done():  # it may have been cancelled
                entry.stored.set_result(None)

    def _send(self, entries: Sequence[_Entry]) -> None:
        keys = [key for entry in entries for key in entry.keys]
        tags = [tag for entry in entries for tag in entry.tags]
        rows = [row for entry in entries for row in entry.rows or ()]
        self._queue.kv_batch_put(
            keys=keys,
            partition_id=entries[0].partition,
            fields=self._to_tensors(rows) if rows else None,
            tags=tags,
        )


def _by_kind(entries: Sequence[_Entry]) -> Iterator[list[_Entry]]:
    """Entries that may be put together, each kind in the place of its first."""
    kinds: dict[Hashable, list[_Entry]] = {}
    for entry in entries:
        kinds.setdefault(entry.kind, []).append(entry)
    yield from kinds.values()
