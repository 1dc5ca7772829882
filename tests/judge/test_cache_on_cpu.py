"""The cache of replies: shared folders, killed writers, broken disks."""

import asyncio
from pathlib import Path

from rltf_verl import jsonl
from rltf_verl.judge import cache as cache_module
from rltf_verl.judge.cache import ReplyCache, key_of
from rltf_verl.judge.wire import Reply
from tests.support.disks import slow_disk
from tests.support.waiting import until

TEXT = "a critique with\nseveral lines, \u2028 odd ones \r and \x85 umlauts äöü"


def test_equal_bodies_have_equal_keys_and_others_do_not() -> None:
    assert key_of({"a": 1, "b": [2]}) == key_of({"b": [2], "a": 1})
    assert key_of({"seed": 1}) != key_of({"seed": 2})


async def test_a_half_line_is_never_data(tmp_path: Path) -> None:
    """Cut a good file at every byte: what is found is a whole reply as it was, or nothing."""
    whole = ReplyCache(tmp_path / "whole")
    await whole.put("one", Reply("first"))
    await whole.put("two", Reply(TEXT, False, 3, 4))
    (file,) = (tmp_path / "whole").glob("*.jsonl")
    data = file.read_bytes()
    end_of_one = data.index(b"\n") + 1
    for cut in range(len(data) + 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "dead.jsonl").write_bytes(data[:cut])
        cache = ReplyCache(folder)
        one, two = await cache.get("one"), await cache.get("two")
        assert (one is not None) == (cut >= end_of_one)
        assert two == (Reply(TEXT, False, 3, 4, cached=True) if cut == len(data) else None)


async def test_lines_of_others_are_found_later_and_read_once(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(cache_module, "LOOK_AGAIN_S", -1.0)
    mine, theirs = ReplyCache(tmp_path), ReplyCache(tmp_path)
    assert await mine.get("k") is None
    await theirs.put("k", Reply("x"))
    assert await mine.get("k") == Reply("x", cached=True)


async def test_other_files_and_nonsense_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        b'\xff\xfe\n{}\n[1]\n{"key": 3, "text": "x"}\n\n{"key": "k", "text": "good"}\n'
    )
    (tmp_path / "notes.txt").write_text("not ours")
    assert await ReplyCache(tmp_path).get("k") == Reply("good", cached=True)


async def test_a_disk_that_refuses_costs_no_reply(tmp_path: Path, monkeypatch, caplog) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    cache = ReplyCache(tmp_path)
    with monkeypatch.context() as disk:
        disk.setattr(jsonl, "append_text", full)
        await cache.put("a", Reply("x"))
    assert len(caplog.records) == 1
    assert await cache.get("a") == Reply("x", cached=True)
    await cache.close()
    assert await ReplyCache(tmp_path).get("a") == Reply("x", cached=True)


async def test_an_empty_reply_is_no_reply_of_the_next_job(tmp_path: Path) -> None:
    await ReplyCache(tmp_path).put("k", Reply(" "))
    assert await ReplyCache(tmp_path).get("k") is None


async def test_an_event_loop_goes_on_while_lines_are_written_and_read(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(cache_module, "LOOK_AGAIN_S", -1.0)
    disk, cache = slow_disk(monkeypatch), ReplyCache(tmp_path)
    keeping = asyncio.create_task(cache.put("k", Reply("x")))
    looking = asyncio.create_task(cache.get("other"))
    await until(disk.asked.is_set)
    assert await cache.get("k") == Reply("x", cached=True)
    assert not looking.done()
    disk.released.set()
    assert await looking is None
    await keeping
