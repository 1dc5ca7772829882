"""JSON lines: whole whoever writes and whoever is killed."""

import asyncio
import os
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltf_verl.jsonl import PatientWriter, append_lines, read_lines
from tests.support.disks import slow_disk
from tests.support.waiting import until

JSON = st.dictionaries(
    st.text(max_size=5), st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30)
)


@given(records=st.lists(JSON, max_size=6))
def test_any_text_comes_back(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.touch()
    for record in records:
        append_lines(path, [record])
    assert read_lines(path) == records


@pytest.mark.parametrize(
    "half", [b'{"a": "hal', b'{"a": 1', b"\xff\xfe", b"[1]", b"nonsense", b"[" * 100_000]
)
def test_half_a_line_costs_that_line_only(tmp_path, caplog, half):
    path = tmp_path / "a.jsonl"
    append_lines(path, [{"n": 1}])
    with path.open("ab") as file:
        file.write(half)
    append_lines(path, [{"n": 2}])  # not glued to the half line
    append_lines(path, [{"n": 3}])
    assert read_lines(path) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert "skipped 1 unreadable line of 4" in caplog.text


def test_a_disk_that_takes_only_a_part_is_an_error_and_leaves_the_file_as_it_was(
    tmp_path, monkeypatch
):
    path, write = tmp_path / "a.jsonl", os.write
    append_lines(path, [{"n": 1}])
    before = path.read_bytes()
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[: len(data) // 2]))
    with pytest.raises(OSError, match="is the disk full"):
        append_lines(path, [{"n": 2}])
    assert path.read_bytes() == before


def test_a_patient_writer_loses_the_oldest_and_says_how_many(tmp_path, caplog):
    path = tmp_path / "folder" / "a.jsonl"
    writer = PatientWriter("a log", most=2)
    writer.append(path, [{"n": 0}, {"n": 1}])
    for n in (2, 3):
        writer.append(path, [{"n": n}])
    assert writer.close() == 4
    path.parent.mkdir()
    writer.append(path, [{"n": 4}])
    assert writer.close() == 3, "what was lost meanwhile"
    assert read_lines(path) == [{"n": 3}, {"n": 4}]
    assert [r.message.split(":")[0] for r in caplog.records] == ["a log", "a log"]
    assert "lost so far: 3" in caplog.records[-1].message


async def test_an_event_loop_goes_on_while_a_slow_disk_takes_every_line_in_order(
    tmp_path, monkeypatch
):
    disk, path, writer = slow_disk(monkeypatch), tmp_path / "a.jsonl", PatientWriter("a log")
    writing = [
        asyncio.create_task(writer.run(partial(writer.append, path, [{"n": n}]))) for n in range(5)
    ]
    await until(disk.asked.is_set)
    for given_up in writing[:2]:  # by its caller: the first is being written, the second waits
        given_up.cancel()
    await asyncio.sleep(0)
    disk.released.set()
    await asyncio.gather(*writing, return_exceptions=True)
    assert await writer.run(writer.close) == 0
    assert read_lines(path) == [{"n": n} for n in range(5)]
