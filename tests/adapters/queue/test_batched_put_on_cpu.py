"""Entries of many episodes in one put."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from rltf_verl.adapters.queue.batched_put import BatchedPuts


class Queue(SimpleNamespace):
    """Notes the puts; refuses a row that says so."""

    def __init__(self) -> None:
        super().__init__(puts=[], stored={})

    def kv_batch_put(self, keys: Any, partition_id: Any, fields: Any, tags: Any) -> None:
        if fields and any(row.get("bad") for row in fields):
            raise ValueError("a bad row")
        self.puts.append((partition_id, list(keys)))
        self.stored |= dict(zip(keys, tags, strict=True))


@pytest.fixture
def queue() -> Queue:
    return Queue()


@pytest.fixture
def puts(queue: Queue) -> BatchedPuts:
    return BatchedPuts(queue, list)  # type: ignore[arg-type]


async def test_what_comes_together_is_put_together(queue: Queue, puts: BatchedPuts) -> None:
    rows = [
        puts.async_kv_batch_put([f"a_{i}_0", f"a_{i}_1"], "train", [{"x": 1}, {"x": 2}], [{}, {}])
        for i in range(3)
    ]
    await asyncio.gather(puts.async_kv_put("a", "train", {"status": "running"}), *rows)
    keys = [f"a_{i}_{k}" for i in range(3) for k in range(2)]
    assert queue.puts == [("train", ["a"]), ("train", keys)]


async def test_partitions_and_kinds_of_rows_stay_apart(queue: Queue, puts: BatchedPuts) -> None:
    await asyncio.gather(
        puts.async_kv_batch_put(["a"], "train", [{"x": 1}], [{}]),
        puts.async_kv_batch_put(["b"], "val", [{"x": 1}], [{}]),
        puts.async_kv_batch_put(["c"], "train", [{"x": 1, "y": 2}], [{}]),
    )
    assert queue.puts == [("train", ["a"]), ("val", ["b"]), ("train", ["c"])]


async def test_a_put_returns_when_its_entry_is_stored(queue: Queue, puts: BatchedPuts) -> None:
    for status in ("running", "finished"):
        await puts.async_kv_put("a", "train", {"status": status})
        assert queue.stored == {"a": {"status": status}}


async def test_an_entry_fails_by_its_own_fault_only(queue: Queue, puts: BatchedPuts) -> None:
    good = puts.async_kv_batch_put(["a"], "train", [{"bad": False}], [{"n": 1}])
    bad = puts.async_kv_batch_put(["b"], "train", [{"bad": True}], [{"n": 2}])
    stored, error = await asyncio.gather(good, bad, return_exceptions=True)
    assert (stored, str(error)) == (None, "a bad row")
    assert queue.stored == {"a": {"n": 1}}


async def test_an_episode_that_is_cancelled_keeps_no_other_from_being_stored(
    queue: Queue, puts: BatchedPuts
) -> None:
    one, other = (asyncio.create_task(puts.async_kv_put(key, "train", {})) for key in "ab")
    await asyncio.sleep(0)
    one.cancel()
    await other
    assert "b" in queue.stored
